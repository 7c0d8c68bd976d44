-- name: add
-- Adds what this leader counted to the minute. Histograms are added element by element.
INSERT INTO rollups AS r (minute, tenant_id, queue, outcome, shard, count, lag_ms, duration_ms)
SELECT x.minute, x.tenant_id, x.queue, x.outcome, x.shard, x.count,
       ARRAY(SELECT json_array_elements_text(x.lag_ms)::bigint), ARRAY(SELECT json_array_elements_text(x.duration_ms)::bigint)
FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::json[], $8::json[])
     AS x(minute, tenant_id, queue, outcome, shard, count, lag_ms, duration_ms)
ON CONFLICT (minute, tenant_id, queue, outcome, shard) DO UPDATE
SET count = r.count + excluded.count,
    lag_ms = ARRAY(SELECT a + b FROM unnest(r.lag_ms, excluded.lag_ms) AS pair(a, b)),
    duration_ms = ARRAY(SELECT a + b FROM unnest(r.duration_ms, excluded.duration_ms) AS pair(a, b));

-- name: prune
-- Minutes older than the retention.
DELETE FROM rollups WHERE minute < $1;
