-- name: moment
-- The auditor reads everything inside one transaction, as of one moment, of the shards that live in this database.
-- The database's clock as of then, and the beginning of the oldest day of history that is kept.
SELECT now() AS now, (
    SELECT min(to_date(right(child.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC'
    FROM pg_inherits i JOIN pg_class child ON child.oid = i.inhrelid
    WHERE i.inhparent = 'horarium.history'::regclass AND child.relname ~ '^history_[0-9]{8}$') AS kept_since;

-- name: jobs
-- Jobs by key after $1, each with its timer, how often it ran for its schedule after $3, with the sum of those times, and
-- whether it has skips or earlier schedules since then: then it is looked at more closely. Indexes jobs_pkey, timers_pkey,
-- history_job, runs_job, skips_job, past_schedules_job. The ids of ticks sort by their time ($4 is the first possible one), and
-- days of history that ended before $5 are left out. OFFSET 0: each is looked up by key, whatever statistics say.
SELECT j.id, j.shard, j.tenant_id, j.status, j.created_at, j.deleted_at, j.pause, j.schedule, j.interval_s, j.run_at, j.run_at_local,
       j.run_at_fold, j.timezone, j.start_at, j.end_at, j.jitter_s, j.anchor_at, t.scheduled_for AS timer_at, t.due_at AS timer_due_at,
       ran.number, ran.total, other.number > 0 AS is_special
FROM (SELECT * FROM jobs
      WHERE id > $1 AND shard IN (SELECT shard FROM shards WHERE state = 'here')
        AND (run_at IS NULL OR run_at > $3) AND (deleted_at IS NULL OR deleted_at > $3)
      ORDER BY id LIMIT $2) AS j
LEFT JOIN LATERAL (SELECT scheduled_for, due_at FROM timers WHERE timers.job_id = j.id OFFSET 0) AS t ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS number, sum(extract(epoch FROM scheduled_for)) AS total
    FROM (SELECT scheduled_for FROM history
          WHERE history.job_id = j.id AND history.id >= $4 AND history.finished_at >= $5
            AND history.trigger = 'schedule' AND history.scheduled_for > $3
          UNION ALL
          SELECT scheduled_for FROM runs
          WHERE runs.job_id = j.id AND runs.trigger = 'schedule' AND runs.scheduled_for > $3) AS ticks
) AS ran
CROSS JOIN LATERAL (
    SELECT (SELECT count(*) FROM skips WHERE skips.job_id = j.id AND skips.last > $3)
           + (SELECT count(*) FROM past_schedules WHERE past_schedules.job_id = j.id AND valid_until > $3) AS number
) AS other
ORDER BY j.id;

-- name: ticks_of
-- The nominal times of a job's scheduled runs after $2, each as often as there are rows. Indexes history_job and runs_job.
SELECT scheduled_for FROM history
WHERE job_id = $1 AND id >= $3 AND finished_at >= $4 AND trigger = 'schedule' AND scheduled_for > $2
UNION ALL
SELECT scheduled_for FROM runs WHERE job_id = $1 AND trigger = 'schedule' AND scheduled_for > $2;

-- name: skips_of
-- The skips of a job that reach beyond $2. Index skips_job.
SELECT first, last, count, exact FROM skips WHERE job_id = $1 AND last > $2;

-- name: past_schedules_of
-- By which schedules a job went before. Index past_schedules_job.
SELECT valid_from, valid_until, schedule_key FROM past_schedules WHERE job_id = $1 ORDER BY valid_until;

-- name: runs_without_job
-- Live runs whose job is gone: nothing says what to carry out.
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.state FROM runs r
WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = r.job_id) AND r.shard IN (SELECT shard FROM shards WHERE state = 'here')
ORDER BY r.id LIMIT $1;

-- name: timers_without_job
-- Timers whose job is gone, or is not one that is to run.
SELECT t.job_id, t.shard, t.tenant_id, t.scheduled_for, j.status FROM timers t LEFT JOIN jobs j ON j.id = t.job_id
WHERE (j.id IS NULL OR j.status <> 'active') AND t.shard IN (SELECT shard FROM shards WHERE state = 'here')
ORDER BY t.job_id LIMIT $1;

-- name: overdue
-- Timers that should have been fired before $1 and stand there still, the longest overdue of each shard. Index timers_due.
SELECT t.job_id, t.shard, t.tenant_id, t.scheduled_for, t.due_at
FROM (SELECT shard FROM shards WHERE state = 'here') AS s
CROSS JOIN LATERAL (
    SELECT * FROM timers WHERE timers.shard = s.shard AND timers.due_at < $1 ORDER BY timers.due_at LIMIT $2
) AS t
ORDER BY t.due_at LIMIT $2;

-- name: stuck_leases
-- Runs that are held by nobody any more, and were not taken back by a leader that is alive.
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.worker_id, r.lease_expires_at
FROM runs r JOIN shards s ON s.shard = r.shard AND s.lease_expires_at > $1 AND s.state = 'here'
WHERE r.state = 'running' AND r.lease_expires_at < $2
ORDER BY r.id LIMIT $3;

-- name: live_and_ended
-- Runs that have ended and live all the same. Index history_id; most live runs have none.
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.state FROM runs r
WHERE EXISTS (SELECT FROM history h WHERE h.id = r.id) AND r.shard IN (SELECT shard FROM shards WHERE state = 'here')
ORDER BY r.id LIMIT $1;

-- name: letters_without_run
-- Open dead letters, not older than history, whose run is not there. Index history_id.
SELECT d.run_id, d.job_id, d.shard, d.tenant_id FROM dead_letters d
WHERE d.since > $1 AND NOT EXISTS (SELECT FROM history h WHERE h.id = d.run_id)
  AND d.shard IN (SELECT shard FROM shards WHERE state = 'here')
ORDER BY d.run_id LIMIT $2;

-- name: leaderless
-- Shards that nobody leads as of $1.
SELECT shard, leader FROM shards WHERE state = 'here' AND coalesce(lease_expires_at <= $1, true) ORDER BY shard;

-- name: progress
-- The latest tick of a job that is accounted for, as a run or as a skip, and where its last earlier schedule ended. Indexes
-- runs_job, history_job, skips_job, past_schedules_job.
SELECT greatest((SELECT max(scheduled_for) FROM runs WHERE job_id = $1 AND trigger = 'schedule'),
                (SELECT max(scheduled_for) FROM history WHERE job_id = $1 AND trigger = 'schedule'),
                (SELECT max(last) FROM skips WHERE job_id = $1)) AS accounted,
       (SELECT max(valid_until) FROM past_schedules WHERE job_id = $1) AS changed;

-- name: drop_timer
-- Takes away a timer whose job is gone or not active (primary key); an active job keeps it.
DELETE FROM timers WHERE job_id = $1 AND NOT EXISTS (SELECT FROM jobs WHERE id = $1 AND status = 'active')
RETURNING job_id, scheduled_for;

-- name: drop_live
-- Takes away the live row of a run that has ended (primary key, index history_id).
DELETE FROM runs WHERE id = $1 AND EXISTS (SELECT FROM history h WHERE h.id = $1) RETURNING id, state;
