-- The move of a shard to another database; `domain/moving.py` tells the steps.

-- name: standing
-- How a shard stands to this database, and whether its mover has been heard of lately (primary key).
SELECT state, peer, leader, term, copied_until, coalesce(lease_expires_at > now(), false) AS alive FROM shards WHERE shard = $1;

-- name: remains
-- Shards that have left this database and whose rows are not taken away yet.
SELECT shard FROM shards WHERE state = 'left' ORDER BY shard;

-- name: prepare
-- Target: the shard $1 is on its way from database $2, by mover $3. History that was copied in an interrupted attempt counts.
INSERT INTO shards (shard, state, peer, leader, lease_expires_at) VALUES ($1, 'arriving', $2, $3, now() + $4::interval)
ON CONFLICT (shard) DO UPDATE
SET state = 'arriving', peer = excluded.peer, leader = excluded.leader, lease_expires_at = excluded.lease_expires_at,
    copied_until = CASE WHEN shards.state = 'arriving' AND shards.peer = excluded.peer THEN shards.copied_until END
WHERE shards.state IN ('arriving', 'arrived', 'gone')
  AND (shards.leader = excluded.leader OR coalesce(shards.lease_expires_at <= now(), true))
RETURNING copied_until;

-- name: note_copied
-- Target: history is here up to $3.
UPDATE shards SET copied_until = $3 WHERE shard = $1 AND state = 'arriving' AND leader = $2 RETURNING shard;

-- name: pause
-- Source: nobody leads the shard $1 any more, it is leaving for database $2 by mover $3.
UPDATE shards SET state = 'leaving', peer = $2, leader = $3, term = term + 1, lease_expires_at = now() + $4::interval
WHERE shard = $1 AND state = 'here' RETURNING term;

-- name: hold
-- Source: the shard is still leaving, and mover $3 is the one that goes on: the same as before, or after another one's death. Never
-- one whose pause was undone meanwhile.
UPDATE shards SET leader = $3, term = term + 1, lease_expires_at = now() + $4::interval
WHERE shard = $1 AND state = 'leaving' AND peer = $2 AND (leader = $3 OR coalesce(lease_expires_at <= now(), true))
RETURNING term;

-- name: keep_lease
-- The mover is alive.
UPDATE shards SET lease_expires_at = now() + $3::interval
WHERE shard = $1 AND leader = $2 AND state IN ('leaving', 'arriving', 'arrived') RETURNING shard;

-- name: note_arrived
-- Target: everything is here.
UPDATE shards SET state = 'arrived' WHERE shard = $1 AND state = 'arriving' AND leader = $2 RETURNING shard;

-- name: take_arrival
-- Target: who finishes a dead mover's work takes its row over.
UPDATE shards SET leader = $2 WHERE shard = $1 AND state IN ('arriving', 'arrived');

-- name: leave
-- Source: from now on the rows are the target's.
UPDATE shards SET state = 'left', leader = NULL, lease_expires_at = NULL
WHERE shard = $1 AND state = 'leaving' AND leader = $2 RETURNING shard;

-- name: stay
-- Source: the move is undone, the shard works on here.
UPDATE shards SET state = 'here', peer = NULL, leader = NULL, lease_expires_at = NULL
WHERE shard = $1 AND state = 'leaving' AND leader = $2 RETURNING shard;

-- name: arrive
-- Target: the shard may be led here, under a term above the source's ($2).
UPDATE shards SET state = 'here', term = greatest(term, $2) + 1, peer = NULL, leader = NULL, lease_expires_at = NULL,
                  copied_until = NULL
WHERE shard = $1 AND state = 'arrived' RETURNING shard;

-- name: note_gone
-- Source: nothing of the shard is here any more.
UPDATE shards SET state = 'gone', peer = NULL, leader = NULL, lease_expires_at = NULL, copied_until = NULL
WHERE shard = $1 AND state IN ('left', 'arriving', 'arrived');

-- name: shards_elsewhere
-- Shards whose rows must not be written here, but for $1.
SELECT coalesce(array_agg(shard ORDER BY shard), '{}') FROM shards WHERE state <> 'here' AND shard IS DISTINCT FROM $1::smallint;

-- name: fence
-- Lets a table refuse what is written for these shards, after the writers of before have ended.
SELECT fence($1, $2::smallint[]);

-- name: let_pass
-- For this transaction: the mover writes rows of a shard that does not live here.
SELECT set_config('horarium.mover', 'on', true);

-- name: last_token
-- The last fencing token that was drawn here.
SELECT last_value FROM fencing_tokens;

-- name: raise_tokens
-- Tokens of a run rise strictly, also across a move: go on above $1. The distance is more than what is drawn meanwhile.
SELECT setval('fencing_tokens', $1::bigint + 1000000) WHERE (SELECT last_value FROM fencing_tokens) <= $1;

-- name: days_of_history
-- The days that have partitions of their own here.
SELECT to_date(right(child.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits i JOIN pg_class child ON child.oid = i.inhrelid
WHERE i.inhparent = 'history'::regclass AND child.relname ~ '^history_[0-9]{8}$' ORDER BY 1;

-- name: jobs_of
-- For copying: the definitions; all of them, or those written since a position (`position`); so too where $2 follows.
SELECT * FROM jobs WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: borrowed_names_of
-- For copying: names that are hashed to the shard and borne by jobs of others.
SELECT * FROM borrowed_names WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: timers_of
-- For copying: the next occurrences.
SELECT * FROM timers WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: runs_of
-- For copying: live runs, with their leases.
SELECT * FROM runs WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: dead_letters_of
-- For copying: open dead letters.
SELECT * FROM dead_letters WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: skips_of
-- For copying: skips, under their ids.
SELECT * FROM skips WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: idempotency_keys_of
-- For copying: answers kept for repeated requests.
SELECT * FROM idempotency_keys WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: past_schedules_of
-- For copying: which schedules governed jobs before.
SELECT * FROM past_schedules WHERE shard = $1 AND ($2::text IS NULL OR age(xmin) <= age($2::xid));

-- name: history_of
-- For copying: runs that ended in a stretch of time; partitions outside of it are left out.
SELECT * FROM history WHERE shard = $1 AND finished_at >= $2 AND finished_at < $3;

-- name: run_logs_of
-- For copying: log lines of a stretch of time.
SELECT * FROM run_logs WHERE shard_of(run_id) = $1 AND at >= $2 AND at < $3;

-- name: delete_jobs
-- What is no longer, or not yet, of this database; so too the following.
DELETE FROM jobs WHERE shard = $1;

-- name: delete_borrowed_names
-- See delete_jobs.
DELETE FROM borrowed_names WHERE shard = $1;

-- name: delete_timers
-- See delete_jobs.
DELETE FROM timers WHERE shard = $1;

-- name: delete_runs
-- See delete_jobs.
DELETE FROM runs WHERE shard = $1;

-- name: delete_dead_letters
-- See delete_jobs.
DELETE FROM dead_letters WHERE shard = $1;

-- name: delete_skips
-- See delete_jobs.
DELETE FROM skips WHERE shard = $1;

-- name: delete_idempotency_keys
-- See delete_jobs.
DELETE FROM idempotency_keys WHERE shard = $1;

-- name: delete_past_schedules
-- See delete_jobs.
DELETE FROM past_schedules WHERE shard = $1;

-- name: delete_history
-- See delete_jobs; of a stretch of time.
DELETE FROM history WHERE shard = $1 AND finished_at >= $2 AND finished_at < $3;

-- name: delete_run_logs
-- See delete_jobs; of a stretch of time.
DELETE FROM run_logs WHERE shard_of(run_id) = $1 AND at >= $2 AND at < $3;
