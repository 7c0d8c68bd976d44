-- name: end
-- The schedule $4 governed a job up to $5. It began where the one before ended, or with the job ($3).
INSERT INTO past_schedules (job_id, shard, valid_from, valid_until, schedule_key)
SELECT $1, $2, coalesce((SELECT max(valid_until) FROM past_schedules WHERE job_id = $1), $3), $5, $4;

-- name: leave_open
-- Times for which it cannot be told any more which ticks there had to be.
INSERT INTO past_schedules (job_id, shard, valid_from, valid_until)
SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[], $4::timestamptz[]);

-- name: prune
-- Schedules that ended before history begins, in bounded bites. Index past_schedules_ended.
DELETE FROM past_schedules WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM past_schedules
    WHERE valid_until < $1 AND shard IN (SELECT shard FROM shards WHERE state = 'here')
    ORDER BY valid_until LIMIT $2));
