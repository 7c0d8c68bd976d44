-- name: oldest_snapshot
-- The session that holds back vacuum the longest: how old its snapshot is, and who it is. Our own is left out.
SELECT extract(epoch FROM now() - coalesce(xact_start, query_start))::double precision AS age_s,
       pid, coalesce(application_name, '') AS application
FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
ORDER BY age(backend_xmin) DESC
LIMIT 1;

-- name: dead_rows
-- The hot tables with more dead rows than live ones would explain; the counts are PostgreSQL's estimates.
SELECT relname AS table_name, n_live_tup AS live, n_dead_tup AS dead
FROM pg_stat_user_tables
WHERE schemaname = 'horarium' AND relname IN ('runs', 'timers', 'shards', 'nodes', 'workers')
ORDER BY n_dead_tup DESC;

-- name: shards_without_leader
-- Shards that no live node leads: their jobs do not run.
SELECT count(*) FILTER (WHERE lease_expires_at IS NULL OR lease_expires_at < now()) AS leaderless, count(*) AS shards
FROM shards WHERE state = 'here';

-- name: room
-- How near the server is to its limit of connections, and which version it is.
SELECT (SELECT count(*) FROM pg_stat_activity) AS used, current_setting('max_connections')::integer AS most,
       current_setting('server_version_num')::integer AS version_num;
