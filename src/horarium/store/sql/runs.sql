-- name: insert
-- Makes runs. The same tick twice is a no-op, not an error (rule I1): its id is computed from (job, nominal time).
INSERT INTO runs (id, job_id, shard, tenant_id, queue, target_key, priority, scheduled_for, ready_at, job_version, trigger)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                     $8::timestamptz[], $9::timestamptz[], $10::integer[], $11::text[])
ON CONFLICT (id) DO NOTHING;

-- name: insert_with_snapshot
-- Makes runs that differ from their job: payload, target, retry policy or timeout of their own, or the run they repeat.
INSERT INTO runs (id, job_id, shard, tenant_id, queue, target_key, priority, scheduled_for, ready_at, job_version, trigger,
                  payload, target, retry, timeout_s, rerun_of)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                     $8::timestamptz[], $9::timestamptz[], $10::integer[], $11::text[],
                     $12::json[], $13::jsonb[], $14::jsonb[], $15::integer[], $16::uuid[])
ON CONFLICT (id) DO NOTHING;

-- name: claim
-- One claim for all workers that asked: the runs $1 go to worker $3, but for those that $2 names another worker for.
-- By primary key; HOT while fillfactor leaves room. Only waiting rows of shards whose term is ours ($5, $6) are taken.
-- The ids stand in a condition, and `runs` is joined with nothing: it is empty most of the time, statistics say so, and then
-- whatever it is joined with is compared row by row, which took seconds for some hundred runs. OFFSET 0 keeps the look at the
-- jobs a look by key for the same reason.
WITH claimed AS (
    UPDATE runs r
    SET state = 'running', attempt = attempt + 1, fencing_token = nextval('fencing_tokens'),
        worker_id = CASE WHEN $2::jsonb IS NULL THEN $3::text ELSE coalesce($2::jsonb ->> r.id::text, $3::text) END,
        started_at = greatest(now(), ready_at), lease_expires_at = now() + $4::interval
    WHERE r.id = ANY($1::uuid[]) AND r.state = 'waiting'
      AND r.shard = ANY((SELECT array_agg(s.shard) FROM shards s
                         JOIN unnest($5::smallint[], $6::bigint[]) AS mine(shard, term)
                         ON mine.shard = s.shard AND mine.term = s.term)::smallint[])
    RETURNING r.id, r.job_id, r.attempt, r.fencing_token, r.scheduled_for, r.trigger, r.timeout_s, r.target, r.payload
)
SELECT c.id, c.fencing_token, c.attempt, coalesce(c.timeout_s, j.timeout_s), c.scheduled_for, c.trigger, j.name,
       coalesce(c.target, j.target), coalesce(c.payload, j.payload)
FROM claimed c
CROSS JOIN LATERAL (SELECT name, timeout_s, target, payload FROM jobs WHERE jobs.id = c.job_id OFFSET 0) AS j;

-- name: succeed
-- Ends runs that succeeded: out of the live rows, into history, in one statement, by (id, token). A stale token ends nothing.
-- A token belongs to one claim of one run, so two conditions stand for the pairs (see claim); then results are found by token.
-- `IS TRUE` keeps the look for a token a look into a hash table: `= ANY` compares it with each of up to two thousand, and a bare
-- IN becomes a join.
-- That is a FULL JOIN because one is never done by comparing each with each; `coalesce` keeps it one, and leaves out the reports
-- that ended nothing.
WITH done AS (
    DELETE FROM runs r
    WHERE r.id = ANY($1::uuid[]) AND (r.fencing_token IN (SELECT unnest($2::bigint[]))) IS TRUE AND r.state = 'running'
    RETURNING r.*
)
INSERT INTO history (id, job_id, scheduled_for, ready_at, started_at, fencing_token, job_version, shard, priority, attempt, state,
                     trigger, tenant_id, queue, target_key, worker_id, rerun_of, timeout_s, payload, target, retry, failures,
                     result, progress)
SELECT d.id, d.job_id, d.scheduled_for, d.ready_at, d.started_at, d.fencing_token, d.job_version, d.shard, d.priority, d.attempt,
       'succeeded', d.trigger, d.tenant_id, d.queue, d.target_key, d.worker_id, d.rerun_of, d.timeout_s, d.payload, d.target,
       d.retry, d.failures, x.result, x.progress
FROM done d
FULL JOIN unnest($2::bigint[], $3::json[], $4::jsonb[]) AS x(token, result, progress) ON x.token = d.fencing_token
WHERE coalesce(d.state, '') <> ''
RETURNING id, fencing_token;

-- name: succeed_plain
-- The same for runs that gave nothing back and told no progress: most of them. A token belongs to one claim of one run, so
-- two conditions stand for the pairs. How many they were is the answer.
WITH done AS (
    DELETE FROM runs r
    WHERE r.id = ANY($1::uuid[]) AND (r.fencing_token IN (SELECT unnest($2::bigint[]))) IS TRUE AND r.state = 'running'
    RETURNING r.*
)
INSERT INTO history (id, job_id, scheduled_for, ready_at, started_at, fencing_token, job_version, shard, priority, attempt, state,
                     trigger, tenant_id, queue, target_key, worker_id, rerun_of, timeout_s, payload, target, retry, failures)
SELECT id, job_id, scheduled_for, ready_at, started_at, fencing_token, job_version, shard, priority, attempt, 'succeeded',
       trigger, tenant_id, queue, target_key, worker_id, rerun_of, timeout_s, payload, target, retry, failures
FROM done;

-- name: ended_under
-- Of these attempts the ones whose run has ended under that very token. Index history_id.
SELECT id, fencing_token FROM history WHERE id = ANY($1::uuid[]) AND fencing_token = ANY($2::bigint[]);

-- name: lock_held
-- The rows behind reports that need a decision, with the policy each was made under. By (id, token), in the order of their ids,
-- so that two who lock the same rows wait for each other; a stale token finds none. Each is looked up by key (see claim).
-- What a leader ends by itself ($3) counts only in shards whose term is still its own ($4, $5).
WITH led AS MATERIALIZED (
    SELECT array_agg(s.shard) AS shards
    FROM shards s
    JOIN unnest($4::smallint[], $5::bigint[]) AS mine(shard, term) ON mine.shard = s.shard AND mine.term = s.term
)
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.queue, r.target_key, r.scheduled_for, r.ready_at, r.started_at, r.attempt,
       r.snoozes, r.fencing_token, r.worker_id, r.failures, r.cancel_requested_by, r.trigger, r.priority,
       coalesce(r.retry, j.retry, '{}') AS retry, coalesce(r.timeout_s, j.timeout_s) AS timeout_s
FROM (SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::boolean[]) AS x(id, token, by_leader) ORDER BY id) AS x
CROSS JOIN LATERAL (
    SELECT * FROM runs
    WHERE runs.id = x.id AND runs.fencing_token = x.token AND runs.state = 'running'
      AND (NOT x.by_leader OR runs.shard = ANY((SELECT shards FROM led)::smallint[]))
    FOR UPDATE
) AS r
LEFT JOIN LATERAL (SELECT retry, timeout_s FROM jobs WHERE jobs.id = r.job_id OFFSET 0) AS j ON true;

-- name: wait_again
-- Back to waiting: after a failed or lost attempt, a snooze, or an interruption (which uses no attempt). By (id, token).
-- An attempt that its leader ended loses its token at once: what its worker says later is stale, not a repeat.
-- $1 is sorted, so a row finds its place in the lists by halving, and is joined with nothing (see claim).
UPDATE runs r
SET fencing_token = CASE WHEN ($7::boolean[])[width_bucket(r.id, $1::uuid[])] THEN nextval('fencing_tokens')
                         ELSE r.fencing_token END,
    state = 'waiting',
    ready_at = ($3::timestamptz[])[width_bucket(r.id, $1::uuid[])],
    attempt = ($4::smallint[])[width_bucket(r.id, $1::uuid[])],
    snoozes = ($5::smallint[])[width_bucket(r.id, $1::uuid[])],
    failures = ($6::jsonb[])[width_bucket(r.id, $1::uuid[])],
    started_at = NULL, lease_expires_at = NULL, worker_id = NULL
WHERE r.id = ANY($1::uuid[]) AND r.fencing_token = ($2::bigint[])[width_bucket(r.id, $1::uuid[])] AND r.state = 'running'
RETURNING r.id;

-- name: finish
-- Ends runs in any final state, with the error and all attempts. By (id, token); joined as in succeed.
WITH done AS (
    DELETE FROM runs r WHERE r.id = ANY($1::uuid[]) AND (r.fencing_token IN (SELECT unnest($2::bigint[]))) IS TRUE RETURNING r.*
)
INSERT INTO history (id, job_id, scheduled_for, ready_at, started_at, fencing_token, job_version, shard, priority, attempt, state,
                     trigger, tenant_id, queue, target_key, worker_id, rerun_of, timeout_s, payload, target, retry, failures,
                     error, progress)
SELECT d.id, d.job_id, d.scheduled_for, d.ready_at, d.started_at,
       CASE WHEN x.by_leader THEN nextval('fencing_tokens') ELSE d.fencing_token END, d.job_version, d.shard, d.priority, x.attempt,
       x.final, d.trigger, d.tenant_id, d.queue, d.target_key, d.worker_id, d.rerun_of, d.timeout_s, d.payload, d.target, d.retry,
       x.failures, x.error, x.progress
FROM done d
FULL JOIN unnest($1::uuid[], $3::text[], $4::text[], $5::jsonb[], $6::jsonb[], $7::smallint[], $8::boolean[])
          AS x(id, final, error, failures, progress, attempt, by_leader) ON x.id = d.id
WHERE coalesce(d.state, '') <> ''
RETURNING id;

-- name: already_reported
-- Reports that are repeats: the run has ended, or waits again, under the very token that is reported.
SELECT x.id, x.token FROM unnest($1::uuid[], $2::bigint[]) AS x(id, token)
WHERE EXISTS (SELECT FROM history h WHERE h.id = x.id AND h.fencing_token = x.token)
   OR EXISTS (SELECT FROM runs r WHERE r.id = x.id AND r.fencing_token = x.token AND r.state = 'waiting' AND x.token > 0);

-- name: end_waiting
-- Ends runs that never started (overlap rule, cancel, delete): out of the live rows, into history with state and reason.
WITH done AS (
    DELETE FROM runs r
    USING unnest($1::uuid[], $2::text[], $3::text[]) AS x(id, final, error)
    WHERE r.id = ANY($1::uuid[]) AND r.id = x.id AND r.state = 'waiting'
    RETURNING r.*, x.final, x.error
)
INSERT INTO history (id, job_id, scheduled_for, ready_at, fencing_token, job_version, shard, priority, attempt, state, trigger,
                     tenant_id, queue, target_key, rerun_of, timeout_s, payload, target, retry, failures, error)
SELECT id, job_id, scheduled_for, ready_at, fencing_token, job_version, shard, priority, attempt, final, trigger, tenant_id,
       queue, target_key, rerun_of, timeout_s, payload, target, retry, failures, error
FROM done
RETURNING id, job_id, tenant_id, shard, scheduled_for, queue;

-- name: retract
-- Takes back scheduled ticks that have not started and lie later than $2 (null: all): they are planned anew or not at all.
-- One that was claimed before (it has a token) was interrupted or snoozed, and goes on. Index runs_job.
DELETE FROM runs
WHERE job_id = ANY($1::uuid[]) AND state = 'waiting' AND trigger = 'schedule' AND attempt = 0 AND fencing_token = 0
  AND ($2::timestamptz IS NULL OR scheduled_for > $2)
RETURNING id, job_id, shard, tenant_id, scheduled_for, ready_at;

-- name: of_job
-- The live runs of a job. Index runs_job.
SELECT * FROM runs WHERE job_id = $1 ORDER BY id;

-- name: snapshot
-- Before an edit: the runs of the job whose nominal time has come keep what they were made with (rule E1). Index runs_job.
UPDATE runs r
SET payload = coalesce(r.payload, j.payload), target = coalesce(r.target, j.target), retry = coalesce(r.retry, j.retry),
    timeout_s = coalesce(r.timeout_s, j.timeout_s)
FROM jobs j
WHERE r.job_id = $1 AND j.id = r.job_id AND (r.scheduled_for <= $2 OR r.attempt > 0 OR r.trigger <> 'schedule');

-- name: request_cancel
-- Asks a running run to stop; the leader tells its worker with the next heartbeat.
UPDATE runs SET cancel_requested_at = coalesce(cancel_requested_at, now()), cancel_requested_by = coalesce(cancel_requested_by, $2)
WHERE id = ANY($1::uuid[]) AND state = 'running'
RETURNING id;

-- name: load
-- Live rows of led shards by key order, for the leader's memory: after a take-over, by the sweep, when lanes run low. Where memory is
-- full, without what waits in the lanes (queue, tenant) that have no room there.
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.queue, r.target_key, r.priority, r.ready_at, r.state, r.attempt, r.fencing_token,
       r.worker_id, r.started_at, r.trigger, r.cancel_requested_at, coalesce(r.timeout_s, j.timeout_s, 300) AS timeout_s,
       coalesce(j.overlap, 'allow') AS overlap
FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.shard = ANY($1::smallint[]) AND r.id > $2
  AND NOT EXISTS (SELECT FROM unnest($4::text[], $5::text[]) AS crowded(queue, tenant_id)
                  WHERE crowded.queue = r.queue AND crowded.tenant_id = r.tenant_id AND r.state = 'waiting')
ORDER BY r.id LIMIT $3;

-- name: load_begun
-- Live rows of led shards that run, or wait after an attempt: the first look after a take-over. They are few beside those that wait;
-- all rows are read for them, none is sent that has not begun. OFFSET 0 keeps the look at the jobs a look by key (see claim).
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.queue, r.target_key, r.priority, r.ready_at, r.state, r.attempt, r.fencing_token,
       r.worker_id, r.started_at, r.trigger, r.cancel_requested_at, coalesce(r.timeout_s, j.timeout_s, 300) AS timeout_s,
       coalesce(j.overlap, 'allow') AS overlap
FROM runs r LEFT JOIN LATERAL (SELECT timeout_s, overlap FROM jobs WHERE jobs.id = r.job_id OFFSET 0) AS j ON true
WHERE r.shard = ANY($1::smallint[]) AND (r.state = 'running' OR r.fencing_token > 0);

-- name: load_of_job
-- The live rows of one job as memory wants them, after an edit. Index runs_job.
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.queue, r.target_key, r.priority, r.ready_at, r.state, r.attempt, r.fencing_token,
       r.worker_id, r.started_at, r.trigger, r.cancel_requested_at, coalesce(r.timeout_s, j.timeout_s, 300) AS timeout_s,
       coalesce(j.overlap, 'allow') AS overlap
FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.job_id = $1;

-- name: load_by_id
-- Live rows by primary key, in the shape of `load`: the sweep's second look.
SELECT r.id, r.job_id, r.shard, r.tenant_id, r.queue, r.target_key, r.priority, r.ready_at, r.state, r.attempt, r.fencing_token,
       r.worker_id, r.started_at, r.trigger, r.cancel_requested_at, coalesce(r.timeout_s, j.timeout_s, 300) AS timeout_s,
       coalesce(j.overlap, 'allow') AS overlap
FROM runs r LEFT JOIN jobs j ON j.id = r.job_id
WHERE r.id = ANY($1::uuid[]);

-- name: refresh_leases
-- Writes the leases that memory has extended, for people who look and for the next leader. Seldom.
UPDATE runs r SET lease_expires_at = now() + $3::interval
WHERE r.id = ANY($1::uuid[]) AND (r.fencing_token IN (SELECT unnest($2::bigint[]))) IS TRUE AND r.state = 'running';

-- name: of_others
-- Live runs of other tenants than $2, by primary key: whose run is reported, where no memory can tell.
SELECT id FROM runs WHERE id = ANY($1::uuid[]) AND tenant_id <> $2;

-- name: drop_waiting
-- Takes ticks away that the overlap rule does not start; the same transaction writes them to skips. Only in shards whose term
-- is still ours ($2, $3).
WITH led AS MATERIALIZED (
    SELECT s.shard FROM shards s JOIN unnest($2::smallint[], $3::bigint[]) AS mine(shard, term)
    ON mine.shard = s.shard AND mine.term = s.term
)
DELETE FROM runs WHERE id = ANY($1::uuid[]) AND state = 'waiting' AND shard IN (SELECT shard FROM led)
RETURNING id, job_id, shard, tenant_id, scheduled_for, ready_at;
