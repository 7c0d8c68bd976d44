-- name: insert_key
-- A new key; only the hash of its token is kept.
INSERT INTO api_keys (id, tenant_id, name, role, hash, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING id, tenant_id, name, role, created_at, created_by, expires_at, revoked_at;

-- name: find_key
-- One key by its public id (primary key), with the seconds it still has: null means no end, below 0 means over.
SELECT id, tenant_id, name, role, hash, revoked_at IS NOT NULL AS revoked,
       extract(epoch FROM expires_at - now())::float8 AS expires_in_s
FROM api_keys
WHERE id = $1;

-- name: page_of_keys
-- The keys of a tenant, newest first, from a cursor on. Keys are few: the tenant's are sorted, no index needed.
SELECT id, tenant_id, name, role, created_at, created_by, expires_at, revoked_at
FROM api_keys
WHERE tenant_id = $1
  AND ($2::timestamptz IS NULL OR (created_at, id) < ($2, $3::text))
ORDER BY created_at DESC, id DESC
LIMIT $4;

-- name: count_live_namesakes
-- How many live keys of a tenant carry this name: two at most, the old and the new one of a rotation.
SELECT count(*) FROM api_keys
WHERE tenant_id = $1 AND name = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: revoke_key
-- End a key for good; one that was revoked keeps its first time.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now())
WHERE tenant_id = $1 AND id = $2
RETURNING id, tenant_id, name, role, created_at, created_by, expires_at, revoked_at;

-- name: lock_keys
-- One maker of keys at a time, to the end of the transaction: the counts before an insert hold.
SELECT pg_advisory_xact_lock(7036581642318);

-- name: any_key
-- Whether any key was ever made here.
SELECT EXISTS (SELECT FROM api_keys);
