-- What has changed in the rows of a shard since they were copied; `store/moving_changes.py` tells how it is used.

-- name: position
-- Every row that is written later than what this transaction sees is written by a transaction of at least this number.
SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text;

-- name: keys_of_jobs
-- How many rows there are, and the keys of those written since a position; of all of them without one.
SELECT count(*) AS total,
       coalesce(array_agg(id) FILTER (WHERE $2::text IS NULL OR age(xmin) <= age($2::xid)), '{}')::uuid[] AS keys
FROM jobs WHERE shard = $1;

-- name: keys_of_timers
-- See keys_of_jobs.
SELECT count(*) AS total,
       coalesce(array_agg(job_id) FILTER (WHERE $2::text IS NULL OR age(xmin) <= age($2::xid)), '{}')::uuid[] AS keys
FROM timers WHERE shard = $1;

-- name: keys_of_runs
-- See keys_of_jobs.
SELECT count(*) AS total,
       coalesce(array_agg(id) FILTER (WHERE $2::text IS NULL OR age(xmin) <= age($2::xid)), '{}')::uuid[] AS keys
FROM runs WHERE shard = $1;

-- name: keys_of_dead_letters
-- See keys_of_jobs.
SELECT count(*) AS total,
       coalesce(array_agg(run_id) FILTER (WHERE $2::text IS NULL OR age(xmin) <= age($2::xid)), '{}')::uuid[] AS keys
FROM dead_letters WHERE shard = $1;

-- name: keys_of_skips
-- See keys_of_jobs.
SELECT count(*) AS total,
       coalesce(array_agg(id) FILTER (WHERE $2::text IS NULL OR age(xmin) <= age($2::xid)), '{}')::bigint[] AS keys
FROM skips WHERE shard = $1;

-- name: keys_of_idempotency_keys
-- See keys_of_jobs.
SELECT count(*) AS total,
       coalesce(array_agg(tenant_id || ' ' || key) FILTER (WHERE $2::text IS NULL OR age(xmin) <= age($2::xid)), '{}')::text[] AS keys
FROM idempotency_keys WHERE shard = $1;

-- name: drop_jobs
-- Of the copy: rows that have changed, or that are no more (primary key).
DELETE FROM jobs WHERE shard = $1 AND id = ANY($2::uuid[]);

-- name: drop_timers
-- See drop_jobs.
DELETE FROM timers WHERE shard = $1 AND job_id = ANY($2::uuid[]);

-- name: drop_runs
-- See drop_jobs.
DELETE FROM runs WHERE shard = $1 AND id = ANY($2::uuid[]);

-- name: drop_dead_letters
-- See drop_jobs.
DELETE FROM dead_letters WHERE shard = $1 AND run_id = ANY($2::uuid[]);

-- name: drop_skips
-- See drop_jobs.
DELETE FROM skips WHERE shard = $1 AND id = ANY($2::bigint[]);

-- name: drop_idempotency_keys
-- See drop_jobs; the shard's rows are looked through.
DELETE FROM idempotency_keys WHERE shard = $1 AND (tenant_id || ' ' || key) = ANY($2::text[]);

-- name: these_jobs
-- Definitions by id (primary key).
SELECT * FROM jobs WHERE shard = $1 AND id = ANY($2::uuid[]);

-- name: borrowers
-- Jobs of a shard that bear a name which is hashed to a shard of this database.
SELECT job_id FROM borrowed_names WHERE shard_of(job_id) = $1 AND shard <> $1;
