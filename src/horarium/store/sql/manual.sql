-- name: find_finished
-- A run that has ended, to be repeated: along history (id), partitions that ended before the run's own time ($3) left out.
SELECT id, job_id, shard, tenant_id, scheduled_for, payload, target, retry, timeout_s, state
FROM history WHERE id = $1 AND tenant_id = $2 AND finished_at >= $3
ORDER BY finished_at DESC LIMIT 1;

-- name: find_live
-- Whether a run is live (primary key).
SELECT state FROM runs WHERE id = $1 AND tenant_id = $2;

-- name: lock_live
-- A live run, held to the end of the transaction (primary key).
SELECT id, job_id, state FROM runs WHERE id = $1 AND tenant_id = $2 FOR UPDATE;

-- name: state_of_finished
-- How a run has ended: along history (id).
SELECT state FROM history WHERE id = $1 AND tenant_id = $2 AND finished_at >= $3 ORDER BY finished_at DESC LIMIT 1;

-- name: take_dead_letters
-- Takes open dead letters of a tenant, by run ($2) or by filter, the oldest first, at most $8, with what it needs to run them
-- again: the job as it is now, and what the run had of its own. Letters whose job is deleted stay: they can only be
-- discarded. Locked ones are somebody else's at this moment. None of a shard that is being moved.
WITH taken AS (
    DELETE FROM dead_letters
    WHERE run_id IN (
        SELECT d.run_id FROM dead_letters d
        JOIN jobs j ON j.id = d.job_id AND j.deleted_at IS NULL
        WHERE d.tenant_id = $1 AND d.shard = ANY (ARRAY(SELECT shard FROM shards WHERE state = 'here'))
          AND ($2::uuid[] IS NULL OR d.run_id = ANY($2))
          AND ($3::uuid IS NULL OR d.job_id = $3)
          AND ($4::text IS NULL OR d.fingerprint = $4)
          AND ($5::text IS NULL OR d.queue = $5)
          AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
          AND ($7::timestamptz IS NULL OR d.since >= $7)
        ORDER BY d.run_id LIMIT $8
        FOR UPDATE OF d SKIP LOCKED)
    RETURNING run_id, job_id
)
SELECT taken.run_id, taken.job_id, j.shard, j.queue, j.priority, j.target AS job_target, j.version, h.scheduled_for,
       h.payload, h.target, h.retry, h.timeout_s
FROM taken
JOIN jobs j ON j.id = taken.job_id
LEFT JOIN LATERAL (
    SELECT scheduled_for, payload, target, retry, timeout_s FROM history WHERE history.id = taken.run_id
    ORDER BY finished_at DESC LIMIT 1
) AS h ON true
ORDER BY taken.run_id;

-- name: discard_dead_letters
-- Gives up open dead letters of a tenant, by run ($2) or by filter, at most $8. Their runs stay in history as dead.
DELETE FROM dead_letters
WHERE run_id IN (
    SELECT d.run_id FROM dead_letters d
    WHERE d.tenant_id = $1 AND d.shard = ANY (ARRAY(SELECT shard FROM shards WHERE state = 'here'))
      AND ($2::uuid[] IS NULL OR d.run_id = ANY($2))
      AND ($3::uuid IS NULL OR d.job_id = $3)
      AND ($4::text IS NULL OR d.fingerprint = $4)
      AND ($5::text IS NULL OR d.queue = $5)
      AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
      AND ($7::timestamptz IS NULL OR d.since >= $7)
    ORDER BY d.run_id LIMIT $8
    FOR UPDATE SKIP LOCKED)
RETURNING run_id;

-- name: close_dead_letter
-- A run that is repeated by hand is no open dead letter any more (primary key).
DELETE FROM dead_letters WHERE run_id = $1;
