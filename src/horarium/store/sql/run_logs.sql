-- name: insert
-- Lines that handlers wrote. A line that is sent twice is told by (run, attempt, seq) when it is read.
INSERT INTO run_logs (run_id, attempt, seq, at, level, message, fields)
SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::integer[], $4::timestamptz[], $5::text[], $6::text[], $7::json[]);
