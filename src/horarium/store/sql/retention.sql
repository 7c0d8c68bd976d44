-- name: make_partitions
-- Partitions of the coming days, made ahead.
SELECT make_partitions($1::date, $2::date);

-- name: drop_partitions
-- Whole days of history and logs, whole months of audit, dropped: no row is deleted one by one.
SELECT drop_partitions($1::date, $2::date);

-- name: delete_default_history
-- What landed outside the day partitions (a clock far off), once it is old.
DELETE FROM history_default WHERE finished_at < $1;

-- name: prune_idempotency_keys
-- Answers kept for repeated requests, for 24 hours; copies that a move has made so far are the source's to count.
DELETE FROM idempotency_keys WHERE created_at < $1 AND shard = ANY (ARRAY(SELECT shard FROM shards WHERE state = 'here'));

-- name: prune_jobs
-- Definitions that nothing refers to any more: deleted jobs and finished one-offs older than the retention, in bounded bites.
-- By primary key order: ids begin with the time they were made at.
DELETE FROM jobs WHERE id IN (
    SELECT j.id FROM jobs j
    WHERE j.id < $1 AND j.shard = ANY (ARRAY(SELECT shard FROM shards WHERE state = 'here')) AND (j.run_at < $2 OR j.deleted_at < $2)
      AND NOT EXISTS (SELECT FROM timers t WHERE t.job_id = j.id)
      AND NOT EXISTS (SELECT FROM runs r WHERE r.job_id = j.id)
      AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.job_id = j.id)
      AND (j.run_at IS NOT NULL OR j.deleted_at IS NOT NULL) AND j.status <> 'paused'
    ORDER BY j.id LIMIT $3);
