-- name: insert_entry
-- One change, in the transaction of the change.
INSERT INTO audit (tenant_id, actor, action, object_type, object_id, before, after, remote, request_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: insert_entries
-- The changes of one request to many objects.
INSERT INTO audit (tenant_id, actor, action, object_type, object_id, before, after, remote, request_id)
SELECT $1, $2, $3, $4, entry.object_id, entry.before, entry.after, $8, $9
FROM unnest($5::text[], $6::json[], $7::json[]) AS entry (object_id, before, after);

-- name: page_of_entries
-- A tenant's entries, newest first, from a cursor on: backwards along the primary key, or along (object_id, id).
SELECT id, at, actor, action, object_type, object_id, before, after, remote, request_id
FROM audit
WHERE tenant_id = $1
  AND ($2::bigint IS NULL OR id < $2)
  AND ($3::text IS NULL OR object_id = $3)
  AND ($4::text IS NULL OR object_type = $4)
  AND ($5::text IS NULL OR actor = $5)
  AND ($6::text IS NULL OR action = $6)
  AND ($7::timestamptz IS NULL OR at >= $7)
ORDER BY id DESC
LIMIT $8;

-- name: entries_of_request
-- What one request changed: asked only when the answer of a request with an Idempotency-Key was lost. Partitions before
-- the request are left out; within the rest this is a scan.
SELECT object_type, object_id, action
FROM audit
WHERE tenant_id = $1 AND request_id = $2 AND at >= $3
ORDER BY id
LIMIT 10;
