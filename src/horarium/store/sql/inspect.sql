-- name: bound_statement
-- For this transaction: a list that takes too long is given up, and each is planned for the filters it really has.
SELECT set_config('statement_timeout', $1::integer::text, true), set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: page_of_runs
-- Runs of a tenant by id, newest first, live and finished ones merged in one snapshot, so that none is seen twice or not at
-- all while it moves. Live rows backwards along the primary key; history backwards along (id), or (job_id, id) of a job;
-- $4, a lower bound of the id, comes with $5, which leaves older partitions out. Of a shard that is being moved one database
-- shows the rows: here as in the other lists.
SELECT page.*, job.name AS job_name,
       coalesce(page.own_timeout_s, job.timeout_s) AS timeout_s,
       (coalesce(page.own_retry, job.retry) ->> 'max_attempts')::integer AS max_attempts
FROM (
    (SELECT id, job_id, live.state, trigger, queue, priority, scheduled_for, ready_at, started_at,
            NULL::timestamptz AS finished_at, attempt, worker_id, fencing_token, rerun_of,
            live.error, timeout_s AS own_timeout_s, retry AS own_retry
     FROM runs
     CROSS JOIN LATERAL (
         SELECT CASE WHEN runs.state = 'running' THEN 'running' WHEN ready_at <= now() THEN 'queued'
                     WHEN attempt > 0 THEN 'failed' ELSE 'scheduled' END AS state,
                (failures -> -1 -> 'error' ->> 'class') || ': ' || (failures -> -1 -> 'error' ->> 'message') AS error
     ) AS live
     WHERE $2::boolean AND tenant_id = $1
       AND shard = ANY (ARRAY(SELECT shard FROM shards WHERE state IN ('here', 'leaving', 'arrived')))
       AND ($3::uuid IS NULL OR id < $3)
       AND ($4::uuid IS NULL OR id >= $4)
       AND ($6::uuid IS NULL OR job_id = $6)
       AND ($7::text IS NULL OR queue = $7)
       AND ($8::text IS NULL OR live.state = $8)
       AND ($9::text IS NULL OR position(lower($9) IN lower(live.error)) > 0)
     ORDER BY id DESC
     LIMIT $10)
    UNION ALL
    (SELECT id, job_id, state, trigger, queue, priority, scheduled_for, ready_at, started_at,
            finished_at, attempt, worker_id, fencing_token, rerun_of,
            error, timeout_s AS own_timeout_s, retry AS own_retry
     FROM history
     WHERE $11::boolean AND tenant_id = $1
       AND shard = ANY (ARRAY(SELECT shard FROM shards WHERE state IN ('here', 'leaving', 'arrived')))
       AND ($3::uuid IS NULL OR id < $3)
       AND ($4::uuid IS NULL OR id >= $4)
       AND ($5::timestamptz IS NULL OR finished_at >= $5)
       AND ($6::uuid IS NULL OR job_id = $6)
       AND ($7::text IS NULL OR queue = $7)
       AND ($8::text IS NULL OR state = $8)
       AND ($9::text IS NULL OR position(lower($9) IN lower(error)) > 0)
     ORDER BY id DESC
     LIMIT $10)
) AS page
LEFT JOIN jobs AS job ON job.id = page.job_id
ORDER BY page.id DESC
LIMIT $10;

-- name: find_run
-- One run with all that is known of it: by primary key among the live ones, by (id) in history, where partitions that ended
-- before the run's own time ($3) are left out.
SELECT run.*, job.name AS job_name,
       coalesce(run.own_timeout_s, job.timeout_s) AS timeout_s,
       coalesce(run.own_payload, job.payload) AS payload,
       (coalesce(run.own_retry, job.retry) ->> 'max_attempts')::integer AS max_attempts
FROM (
    SELECT id, job_id,
           CASE WHEN state = 'running' THEN 'running' WHEN ready_at <= now() THEN 'queued'
                WHEN attempt > 0 THEN 'failed' ELSE 'scheduled' END AS state,
           trigger, queue, priority, scheduled_for, ready_at, started_at, NULL::timestamptz AS finished_at, attempt,
           worker_id, fencing_token, rerun_of,
           (failures -> -1 -> 'error' ->> 'class') || ': ' || (failures -> -1 -> 'error' ->> 'message') AS error, failures,
           NULL::json AS result, NULL::jsonb AS progress, cancel_requested_at, cancel_requested_by,
           timeout_s AS own_timeout_s, retry AS own_retry, payload AS own_payload
    FROM runs
    WHERE id = $1 AND tenant_id = $2
    UNION ALL
    SELECT id, job_id, state, trigger, queue, priority, scheduled_for, ready_at, started_at, finished_at, attempt,
           worker_id, fencing_token, rerun_of, error, failures, result, progress, NULL, NULL,
           timeout_s, retry, payload
    FROM history
    WHERE id = $1 AND tenant_id = $2 AND finished_at >= $3
) AS run
LEFT JOIN jobs AS job ON job.id = run.job_id;

-- name: latest_logs
-- The last lines of a run, the latest first; along (run_id, attempt, seq), partitions before the run's time left out.
SELECT at, attempt, seq, level, message, fields
FROM run_logs
WHERE run_id = $1 AND at >= $2
ORDER BY attempt DESC, seq DESC
LIMIT $3;

-- name: page_of_logs
-- The lines of a run in their order, after (attempt, seq); along (run_id, attempt, seq).
SELECT at, attempt, seq, level, message, fields
FROM run_logs
WHERE run_id = $1 AND at >= $2 AND (attempt, seq) > ($3::smallint, $4::integer)
ORDER BY attempt, seq
LIMIT $5;

-- name: job_of_id
-- Whether the tenant has or had this job (primary key).
SELECT id FROM jobs WHERE tenant_id = $1 AND id = $2;

-- name: count_queues
-- What stands in each queue of a tenant, where no leader's memory can be asked. At most $2 live rows are looked at; beyond
-- that the counts are lower bounds.
SELECT queue,
       count(*) FILTER (WHERE state = 'waiting' AND ready_at > now()) AS scheduled,
       count(*) FILTER (WHERE state = 'waiting' AND ready_at <= now()) AS queued,
       count(*) FILTER (WHERE state = 'running') AS running,
       extract(epoch FROM now() - min(ready_at) FILTER (WHERE state = 'waiting' AND ready_at <= now()))::float8
           AS oldest_due_s
FROM (SELECT queue, state, ready_at FROM runs
      WHERE tenant_id = $1 AND shard = ANY (ARRAY(SELECT shard FROM shards WHERE state IN ('here', 'leaving', 'arrived')))
      LIMIT $2) AS looked_at
GROUP BY queue;

-- name: recent_queues
-- Queues of a tenant that had runs in the last day: along the primary key from that minute on.
SELECT DISTINCT queue FROM rollups WHERE minute >= now() - interval '1 day' AND tenant_id = $1;

-- name: page_of_workers
-- Workers of a tenant that were heard of within $2, by id (primary key).
SELECT id, node_id, version, host, pid, queues, handlers, slots, running, started_at, last_seen_at,
       extract(epoch FROM now() - last_seen_at)::float8 AS silent_s
FROM workers
WHERE tenant_id = $1 AND last_seen_at >= now() - $2::interval AND ($3::text IS NULL OR id > $3)
ORDER BY id
LIMIT $4;

-- name: page_of_dead_letters
-- Dead letters of a tenant, newest run first (primary key); of one job or fingerprint along their own index.
SELECT dead.run_id, dead.job_id, job.name AS job_name, dead.queue, dead.fingerprint, dead.error, dead.attempts, dead.since
FROM dead_letters AS dead
LEFT JOIN jobs AS job ON job.id = dead.job_id
WHERE dead.tenant_id = $1
  AND dead.shard = ANY (ARRAY(SELECT shard FROM shards WHERE state IN ('here', 'leaving', 'arrived')))
  AND ($2::uuid IS NULL OR dead.run_id < $2)
  AND ($3::uuid IS NULL OR dead.job_id = $3)
  AND ($4::text IS NULL OR dead.queue = $4)
  AND ($5::text IS NULL OR dead.fingerprint = $5)
  AND ($6::text IS NULL OR position(lower($6) IN lower(dead.error)) > 0)
  AND ($7::timestamptz IS NULL OR dead.since >= $7)
ORDER BY dead.run_id DESC
LIMIT $8;

-- name: groups_of_dead_letters
-- Dead letters of a tenant by error and job, the largest group first; one error stands for its group.
SELECT letters.fingerprint, letters.job_id, job.name AS job_name, letters.queue, letters.error, letters.count,
       letters.first_since, letters.last_since, letters.last_run_id
FROM (
    SELECT fingerprint, job_id, max(queue) AS queue, max(error) AS error, count(*) AS count, min(since) AS first_since,
           max(since) AS last_since, (array_agg(run_id ORDER BY since DESC))[1] AS last_run_id
    FROM dead_letters
    WHERE tenant_id = $1
      AND shard = ANY (ARRAY(SELECT shard FROM shards WHERE state IN ('here', 'leaving', 'arrived')))
      AND ($2::uuid IS NULL OR job_id = $2)
      AND ($3::text IS NULL OR queue = $3)
      AND ($4::text IS NULL OR fingerprint = $4)
      AND ($5::text IS NULL OR position(lower($5) IN lower(error)) > 0)
      AND ($6::timestamptz IS NULL OR since >= $6)
    GROUP BY fingerprint, job_id
    ORDER BY count(*) DESC, max(since) DESC
    LIMIT $7
) AS letters
LEFT JOIN jobs AS job ON job.id = letters.job_id
ORDER BY letters.count DESC, letters.last_since DESC;
