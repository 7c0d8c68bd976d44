-- name: insert
-- Runs that used up their attempts, open until somebody retries or discards them.
INSERT INTO dead_letters (run_id, job_id, tenant_id, queue, shard, fingerprint, error, attempts)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::text[], $8::smallint[])
ON CONFLICT (run_id) DO NOTHING;

-- name: count
-- How many are open, by tenant and queue: the table is small.
SELECT tenant_id, queue, count(*) FROM dead_letters
WHERE shard = ANY (ARRAY(SELECT shard FROM shards WHERE state = 'here')) GROUP BY tenant_id, queue;
