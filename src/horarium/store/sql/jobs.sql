-- name: insert
-- One new job. A name that is taken (index jobs_name) leaves it out. Many are copied instead: see `taken_names`.
INSERT INTO jobs (id, shard, tenant_id, created_at, created_by, updated_at, updated_by, anchor_at, name, payload, run_at,
                  description, owner, tags, managed_by, target, queue, priority, schedule, interval_s, run_at_local, run_at_fold,
                  timezone, start_at, end_at, jitter_s, misfire, misfire_grace_s, catch_up_window_s, max_catch_up, overlap, retry,
                  timeout_s, expect)
VALUES ($1, $2, $3, $4, $5, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26, $27, $28, $29, $30, $31, $32)
ON CONFLICT (tenant_id, name) WHERE name IS NOT NULL AND deleted_at IS NULL DO NOTHING
RETURNING id;

-- name: insert_one_offs
-- A few one-offs as applications enqueue them, each with its run where it is due at once (run_id) or else its timer, and its line
-- in the audit: one statement, and so one transaction and one round trip. A name that is taken (index jobs_name) leaves a job out.
-- Many are copied instead: see `taken_names`.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($2::uuid[], $3::smallint[], $4::text[], $5::text[], $6::text[], $7::json[], $8::timestamptz[],
                         $9::jsonb[], $10::text[], $11::smallint[], $12::integer[], $13::jsonb[], $14::text[], $15::uuid[],
                         $16::text[], $17::text[], $18::text[], $19::json[])
         AS x(id, shard, tenant_id, created_by, name, payload, run_at, target, queue, priority, timeout_s, retry, target_key, run_id,
              schedule_key, remote, request_id, after)
),
stored AS (
    INSERT INTO jobs (id, shard, tenant_id, created_at, created_by, updated_at, updated_by, anchor_at, name, payload, run_at, target,
                      queue, priority, timeout_s, retry)
    SELECT id, shard, tenant_id, $1, created_by, $1, created_by, $1, name, payload, run_at, target, queue, priority, timeout_s, retry
    FROM given
    ON CONFLICT (tenant_id, name) WHERE name IS NOT NULL AND deleted_at IS NULL DO NOTHING
    RETURNING id
),
due AS (
    INSERT INTO runs (id, job_id, scheduled_for, ready_at, job_version, shard, priority, tenant_id, queue, target_key)
    SELECT run_id, id, run_at, run_at, 1, shard, priority, tenant_id, queue, target_key
    FROM given WHERE run_id IS NOT NULL AND id IN (SELECT id FROM stored)
),
later AS (
    INSERT INTO timers (job_id, scheduled_for, due_at, shard, priority, job_version, tenant_id, queue, target_key, schedule_key)
    SELECT id, run_at, run_at, shard, priority, 1, tenant_id, queue, target_key, schedule_key
    FROM given WHERE run_id IS NULL AND id IN (SELECT id FROM stored)
),
noted AS (
    INSERT INTO audit (at, tenant_id, actor, action, object_type, object_id, after, remote, request_id)
    SELECT $1, tenant_id, created_by, 'create', 'job', id::text, after, remote, request_id
    FROM given WHERE id IN (SELECT id FROM stored)
)
SELECT id FROM stored;

-- name: taken_names
-- Which of these (tenant, name) are borne by jobs now (unique index jobs_name).
SELECT j.tenant_id, j.name
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, name)
JOIN jobs j ON j.tenant_id = wanted.tenant_id AND j.name = wanted.name AND j.deleted_at IS NULL;

-- name: update
-- Everything that an edit, a pause or a resume may change, guarded by the version that was read (rule E5). By primary key.
UPDATE jobs
SET updated_at = $3, updated_by = $4, status = $5, status_reason = $6, pause = $7, version = version + 1, anchor_at = $8,
    name = $9, payload = $10, run_at = $11, description = $12, owner = $13, tags = $14, managed_by = $15,
    target = $16, queue = $17, priority = $18, schedule = $19, interval_s = $20, run_at_local = $21, run_at_fold = $22,
    timezone = $23, start_at = $24, end_at = $25, jitter_s = $26, misfire = $27, misfire_grace_s = $28, catch_up_window_s = $29,
    max_catch_up = $30, overlap = $31, retry = $32, timeout_s = $33, expect = $34
WHERE id = $1 AND version = $2;

-- name: mark_deleted
-- A deleted job: cancelled, its name free again (index jobs_name). The row stays while history speaks of it.
UPDATE jobs
SET status = 'cancelled', status_reason = $2, pause = NULL, deleted_at = $3, updated_at = $3, updated_by = $4,
    version = version + 1
WHERE id = $1;

-- name: find_by_id
-- One job of a tenant, deleted or not (primary key).
SELECT * FROM jobs WHERE tenant_id = $1 AND id = $2;

-- name: find_by_name
-- The job that bears a name now (unique index jobs_name).
SELECT * FROM jobs WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL;

-- name: id_of_name
-- As find_by_name, the id only.
SELECT id FROM jobs WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL;

-- name: lock
-- One job of a tenant, held to the end of the transaction (primary key). Its timer is locked before, never after: the
-- scheduler goes that way too.
SELECT * FROM jobs WHERE tenant_id = $1 AND id = $2 FOR UPDATE;

-- name: plan_for_filters
-- For this transaction: a list is planned for the filters it really has, and given up when it takes too long.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('statement_timeout', '2000', true);

-- name: page
-- Jobs of a tenant, newest first, with ids below $2: backwards along the primary key, or by name along jobs_name. `shown` is
-- the status as people see it: a one-off of which nothing is left is finished. Deleted jobs only where they are asked for. What a
-- move has copied already, or has not taken away yet, is another database's to show.
SELECT j.*, seen.shown
FROM jobs j
CROSS JOIN LATERAL (
    SELECT CASE WHEN j.status = 'active' AND j.run_at IS NOT NULL
                     AND NOT EXISTS (SELECT FROM timers t WHERE t.job_id = j.id)
                     AND NOT EXISTS (SELECT FROM runs r WHERE r.job_id = j.id)
                THEN 'finished' ELSE j.status END AS shown
) AS seen
WHERE j.tenant_id = $1
  AND j.shard = ANY (ARRAY(SELECT shard FROM shards WHERE state IN ('here', 'leaving', 'arrived')))
  AND ($2::uuid IS NULL OR j.id < $2)
  AND (($3::text IS NULL AND j.deleted_at IS NULL) OR seen.shown = $3)
  AND ($4::text IS NULL OR j.queue = $4)
  AND ($5::text IS NULL OR $5 = ANY(j.tags))
  AND ($6::text IS NULL OR j.name = $6)
  AND ($7::text IS NULL OR starts_with(j.name, $7))
  AND ($8::text IS NULL OR j.owner = $8)
  AND ($9::text IS NULL OR j.managed_by = $9)
  AND ($10::timestamptz IS NULL
       OR EXISTS (SELECT FROM timers t WHERE t.job_id = j.id AND t.scheduled_for < $10)
       OR EXISTS (SELECT FROM runs r WHERE r.job_id = j.id AND r.state = 'waiting' AND r.scheduled_for < $10))
ORDER BY j.id DESC
LIMIT $11;

-- name: borrow_name
-- A name that a rename gave to a job of another shard; whoever held the row does not bear the name any more.
INSERT INTO borrowed_names (tenant_id, name, shard, job_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, name) DO UPDATE SET shard = excluded.shard, job_id = excluded.job_id;

-- name: borrowers
-- Which of these names are borrowed, and by which jobs (primary key).
SELECT name, job_id FROM borrowed_names WHERE tenant_id = $1 AND name = ANY($2::text[]);

-- name: free_names
-- A job does not bear these names any more (primary key).
DELETE FROM borrowed_names WHERE tenant_id = $1 AND name = ANY($2::text[]) AND job_id = $3;

-- name: outlook
-- What lies ahead of some jobs and what was last: the timer, waiting ticks that are later than $2 (of one-offs: any), whether
-- anything is live, and the latest run that was begun or has ended. Indexes runs_job and history_job.
SELECT j.id, least(t.scheduled_for, live.ahead) AS next_run_at, t.job_id IS NOT NULL OR live.count > 0 AS is_live,
       last.id AS last_id, last.state AS last_state, last.started_at AS last_started_at, last.finished_at AS last_finished_at
FROM unnest($1::uuid[]) AS asked (id)
JOIN jobs j ON j.id = asked.id
LEFT JOIN timers t ON t.job_id = j.id
LEFT JOIN LATERAL (
    SELECT count(*) AS count,
           min(r.scheduled_for) FILTER (WHERE r.state = 'waiting' AND r.trigger = 'schedule' AND r.attempt = 0
                                        AND (r.scheduled_for > $2 OR j.run_at IS NOT NULL)) AS ahead
    FROM runs r WHERE r.job_id = j.id
) AS live ON true
LEFT JOIN LATERAL (
    SELECT * FROM (
        (SELECT r.id, CASE WHEN r.state = 'running' THEN 'running' WHEN r.ready_at <= $2 THEN 'queued' ELSE 'failed' END AS state,
                r.started_at, NULL::timestamptz AS finished_at
         FROM runs r WHERE r.job_id = j.id AND (r.state = 'running' OR r.attempt > 0)
         ORDER BY r.id DESC LIMIT 1)
        UNION ALL
        (SELECT h.id, h.state, h.started_at, h.finished_at
         FROM history h WHERE h.job_id = j.id ORDER BY h.id DESC LIMIT 1)
    ) AS both_kinds
    ORDER BY id DESC LIMIT 1
) AS last ON true;

-- name: handled_ahead
-- The latest tick of a job that lies ahead of $2 and is out of the schedule's hands already: live (claimed early), ended before
-- its time (cancelled), or skipped by somebody for whose lock the caller waited, while its own $2 grew old. Indexes runs_job,
-- history_job and skips_job; what is ahead now ended within the last hours, and was skipped just now.
SELECT max(scheduled_for)
FROM (
    SELECT scheduled_for FROM runs WHERE job_id = $1 AND trigger = 'schedule' AND scheduled_for > $2
    UNION ALL
    SELECT scheduled_for FROM history
    WHERE job_id = $1 AND trigger = 'schedule' AND scheduled_for > $2 AND finished_at > now() - interval '6 hours'
    UNION ALL
    SELECT last FROM (SELECT last FROM skips WHERE job_id = $1 ORDER BY id DESC LIMIT 100) AS latest
    WHERE last > $2 AND last <= clock_timestamp()
) AS ticks;

-- name: retract_ticks
-- Takes back these ticks if they have not started (primary key).
DELETE FROM runs WHERE id = ANY($1::uuid[]) AND state = 'waiting' AND trigger = 'schedule' AND attempt = 0
RETURNING id, scheduled_for;

-- name: refresh_ticks_ahead
-- After an edit: ticks that were made ahead of their time go by the new definition. Index runs_job.
UPDATE runs SET queue = $3, priority = $4, target_key = $5, job_version = $6
WHERE job_id = $1 AND scheduled_for > $2 AND state = 'waiting' AND trigger = 'schedule' AND attempt = 0;

-- name: take_back_skip
-- A catch-up runs what the beginning of the pause had written down as skipped: that line goes. Index skips_job.
DELETE FROM skips WHERE job_id = $1 AND reason = 'paused' AND first = $2 AND last = $3 AND count = $4;

-- name: lapsed_pauses
-- Paused jobs whose `until` has come, the longest due first. Index jobs_paused holds paused jobs only.
SELECT tenant_id, id FROM jobs
WHERE status = 'paused' AND (pause ->> 'until')::timestamptz <= $1
  AND shard = ANY (ARRAY(SELECT shard FROM shards WHERE state = 'here'))
ORDER BY (pause ->> 'until')::timestamptz LIMIT $2;

-- name: next_lapse
-- When the next pause ends by itself, later than $1. Index jobs_paused.
SELECT min((pause ->> 'until')::timestamptz) FROM jobs WHERE status = 'paused' AND (pause ->> 'until')::timestamptz > $1;

-- name: keep_paused
-- A job that cannot be resumed by itself stays paused, without an end, and says why (rule N2).
UPDATE jobs SET pause = pause - 'until', status_reason = $2 WHERE id = $1 AND status = 'paused';
