-- name: select_due
-- The timers that are due by $4 in each led shard ($1), from that shard's cursor ($2) on, at most $3 of each.
-- Index timers_due: ORDER BY equals its second column inside one shard, so nothing is sorted, and the cursor keeps the scan
-- off the dead entries of timers that have moved on. SKIP LOCKED: an edit under way keeps its timer; a second leader by
-- mistake does not wait. A shard whose term is not ours any more ($5, $6) gives nothing.
SELECT t.job_id, t.shard, t.scheduled_for, t.due_at, t.last_scheduled_for, t.priority, t.job_version, t.tenant_id, t.queue,
       t.target_key, t.schedule_key, t.policy_key
FROM unnest($1::smallint[], $2::timestamptz[]) AS led(shard, cursor)
CROSS JOIN LATERAL (
    SELECT * FROM timers
    WHERE timers.shard = led.shard AND timers.due_at >= led.cursor AND timers.due_at <= $4
    ORDER BY timers.due_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
) AS t
WHERE led.shard IN (SELECT s.shard FROM shards s
                    JOIN unnest($5::smallint[], $6::bigint[]) AS mine(shard, term) ON mine.shard = s.shard AND mine.term = s.term);

-- name: fire
-- The straight path in one statement: one run for each timer, and the timer moved on. Compare-and-set on the occurrence
-- (rule I4); what the run takes over from the timer does not travel to the client and back.
-- The ids of the jobs ($2) are sorted, so a timer finds its place in the lists by halving. The timers are not joined with a
-- list: where statistics say that there are none, the two would be compared row by row.
WITH moved AS (
    UPDATE timers t
    SET scheduled_for = ($4::timestamptz[])[width_bucket(t.job_id, $2::uuid[])],
        due_at = ($4::timestamptz[])[width_bucket(t.job_id, $2::uuid[])],
        last_scheduled_for = t.scheduled_for
    WHERE t.job_id = ANY($2::uuid[]) AND t.scheduled_for = ($3::timestamptz[])[width_bucket(t.job_id, $2::uuid[])]
    RETURNING ($1::uuid[])[width_bucket(t.job_id, $2::uuid[])] AS run_id, t.job_id, t.last_scheduled_for AS nominal,
              t.job_version, t.shard, t.priority, t.tenant_id, t.queue, t.target_key
)
INSERT INTO runs (id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key)
SELECT run_id, job_id, nominal, nominal, job_version, shard, priority, tenant_id, queue, target_key FROM moved
ON CONFLICT (id) DO NOTHING;

-- name: move
-- Moves timers on to their next occurrence. Compare-and-set on the occurrence that was fired (rule I4). $1 is sorted: see fire.
UPDATE timers t
SET scheduled_for = ($3::timestamptz[])[width_bucket(t.job_id, $1::uuid[])],
    due_at = ($4::timestamptz[])[width_bucket(t.job_id, $1::uuid[])],
    last_scheduled_for = ($5::timestamptz[])[width_bucket(t.job_id, $1::uuid[])]
WHERE t.job_id = ANY($1::uuid[]) AND t.scheduled_for = ($2::timestamptz[])[width_bucket(t.job_id, $1::uuid[])];

-- name: delete
-- Removes timers: no further occurrence, paused, or deleted. By primary key.
DELETE FROM timers WHERE job_id = ANY($1::uuid[]);

-- name: lock
-- Holds back the scheduler from these jobs until the caller's transaction ends; the rows as they stand.
SELECT * FROM timers WHERE job_id = ANY($1::uuid[]) ORDER BY job_id FOR UPDATE;

-- name: upsert
-- A job's next occurrence, new or changed by an edit.
INSERT INTO timers (job_id, shard, scheduled_for, due_at, last_scheduled_for, priority, job_version, tenant_id, queue,
                    target_key, schedule_key, policy_key, zone_version)
SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::smallint[],
                     $7::integer[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[])
ON CONFLICT (job_id) DO UPDATE
SET scheduled_for = excluded.scheduled_for, due_at = excluded.due_at, priority = excluded.priority,
    job_version = excluded.job_version, queue = excluded.queue, target_key = excluded.target_key,
    schedule_key = excluded.schedule_key, policy_key = excluded.policy_key, zone_version = excluded.zone_version,
    last_scheduled_for = coalesce(excluded.last_scheduled_for, timers.last_scheduled_for);

-- name: finish_jobs
-- Jobs whose last tick has been fired (rule B1). One-offs are not written: they are finished when nothing of them is left.
UPDATE jobs SET status = 'finished', updated_at = now()
WHERE id = ANY($1::uuid[]) AND status = 'active' AND run_at IS NULL;

-- name: fail_jobs
-- Jobs that cannot be planned go to error with a reason; others go on (rule N2).
UPDATE jobs j SET status = 'error', status_reason = x.reason, updated_at = now()
FROM unnest($1::uuid[], $2::text[]) AS x(id, reason)
WHERE j.id = x.id AND j.status = 'active';

-- name: select_handled_ahead
-- Timers whose last handled tick lies more than the tolerance ahead of now: the clock was set back (rule M4). By key after $3.
SELECT job_id, shard, scheduled_for, due_at, last_scheduled_for, priority, job_version, tenant_id, queue, target_key,
       schedule_key, policy_key
FROM timers WHERE shard = ANY($1::smallint[]) AND last_scheduled_for > $2 AND job_id > $3
ORDER BY job_id LIMIT $4
FOR UPDATE SKIP LOCKED;

-- name: rearm
-- Sets timers anew from now after a large backward step of the clock.
UPDATE timers t SET scheduled_for = x.scheduled_for, due_at = x.due_at, last_scheduled_for = NULL
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS x(job_id, scheduled_for, due_at)
WHERE t.job_id = x.job_id;

-- name: select_other_zone_version
-- Timers computed with other zone data (rule Z1), in batches by key.
SELECT job_id, shard, scheduled_for, due_at, last_scheduled_for, priority, job_version, tenant_id, queue, target_key,
       schedule_key, policy_key, zone_version
FROM timers WHERE shard = ANY($1::smallint[]) AND zone_version <> '' AND zone_version < $2 AND job_id > $3
ORDER BY job_id LIMIT $4
FOR UPDATE SKIP LOCKED;

-- name: recompute
-- The next occurrence under newer zone data. Compare-and-set on the one it was computed from.
UPDATE timers t
SET scheduled_for = x.next_scheduled_for, due_at = x.next_due_at, schedule_key = x.schedule_key, zone_version = $6
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::text[])
     AS x(job_id, scheduled_for, next_scheduled_for, next_due_at, schedule_key)
WHERE t.job_id = x.job_id AND t.scheduled_for = x.scheduled_for;

-- name: relocate_one_offs
-- One-offs that were given as wall time: the instant that their text stands for under newer zone data (rule Z2).
UPDATE jobs j SET run_at = x.run_at
FROM unnest($1::uuid[], $2::timestamptz[]) AS x(id, run_at)
WHERE j.id = x.id AND j.run_at_local IS NOT NULL AND j.run_at <> x.run_at;

-- name: count_overdue
-- The watchdog: timers that should have been fired and were not, counted to a bound. Index timers_due.
SELECT count(*) FROM (SELECT FROM timers WHERE shard = ANY($1::smallint[]) AND due_at < $2 LIMIT $3) AS overdue;
