-- name: take_key
-- Take a key for this request, unless another request of the last 24 h has it (primary key).
INSERT INTO idempotency_keys (tenant_id, key, request_hash, headers, shard)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, key) DO UPDATE
    SET request_hash = excluded.request_hash, headers = excluded.headers, status = NULL, body = NULL, created_at = now()
    WHERE idempotency_keys.created_at < now() - interval '24 hours'
RETURNING created_at;

-- name: read_key
-- What is known of a key: its request, and the answer once there is one.
SELECT request_hash, status, headers, body, created_at, extract(epoch FROM now() - created_at)::float8 AS age_s
FROM idempotency_keys
WHERE tenant_id = $1 AND key = $2;

-- name: retake_key
-- Take over a key whose request left no answer; nobody else may have done so since it was read.
UPDATE idempotency_keys SET headers = $4, status = NULL, created_at = now()
WHERE tenant_id = $1 AND key = $2 AND created_at = $3
RETURNING created_at;

-- name: keep_answer
-- The answer of the request that holds the key.
UPDATE idempotency_keys SET status = $4, headers = $5, body = $6
WHERE tenant_id = $1 AND key = $2 AND created_at = $3;

-- name: free_key
-- Give a key back: its request was turned away before it did anything.
DELETE FROM idempotency_keys WHERE tenant_id = $1 AND key = $2 AND created_at = $3;
