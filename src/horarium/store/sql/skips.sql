-- name: insert
-- Ticks that did not become a run: one row for a stretch.
INSERT INTO skips (job_id, tenant_id, shard, first, last, count, exact, reason, coalesced_into)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::timestamptz[], $5::timestamptz[], $6::integer[], $7::boolean[],
                     $8::text[], $9::uuid[]);

-- name: of_job
-- The skips of a job, newest first, before a given id. Index skips_job.
SELECT id, first, last, count, exact, reason, coalesced_into, recorded_at FROM skips
WHERE job_id = $1 AND ($2::bigint IS NULL OR id < $2)
ORDER BY id DESC LIMIT $3;

-- name: over
-- Stretches of skipped ticks that an instant lies in, among the latest of a job. Index skips_job.
SELECT first, last FROM (SELECT first, last FROM skips WHERE job_id = $1 ORDER BY id DESC LIMIT 200) AS latest
WHERE first <= $2 AND last >= $2;

-- name: prune
-- Skips older than the retention, in bounded bites. Index skips_recorded.
DELETE FROM skips WHERE id IN (
    SELECT id FROM skips WHERE recorded_at < $1 AND shard = ANY (ARRAY(SELECT shard FROM shards WHERE state = 'here'))
    ORDER BY recorded_at LIMIT $2);
