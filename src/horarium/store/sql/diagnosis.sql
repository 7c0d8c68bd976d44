-- name: holders
-- Whoever keeps vacuum from taking away what has died, the oldest first: sessions in a transaction, prepared transactions, and
-- replication slots. `xids` counts the transactions that were begun since; a slot tells no time, and neither does the session of
-- another role, unless ours may read all statistics (pg_monitor). Our own session is left out, and so are other databases.
SELECT * FROM (
    SELECT 'session' AS kind, coalesce(usename, '') AS name, pid, coalesce(application_name, '') AS application,
           coalesce(state, '') AS state,
           extract(epoch FROM clock_timestamp() - coalesce(xact_start, query_start))::double precision AS age_s,
           extract(epoch FROM clock_timestamp() - query_start)::double precision AS query_s,
           greatest(age(backend_xid), age(backend_xmin)) AS xids
    FROM pg_stat_activity
    WHERE (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) AND pid <> pg_backend_pid()
      AND backend_type IN ('client backend', 'walsender')
      AND (datid IS NULL OR datid = 0 OR datname = current_database())
    UNION ALL
    SELECT 'prepared', gid, NULL, owner, '', extract(epoch FROM clock_timestamp() - prepared)::double precision, NULL,
           age(transaction)
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'slot', slot_name, active_pid, coalesce(plugin, ''), CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL, NULL,
           age(xmin)
    FROM pg_replication_slots WHERE xmin IS NOT NULL AND (database IS NULL OR database = current_database())
) AS holders
ORDER BY xids DESC NULLS LAST, age_s DESC NULLS LAST
LIMIT $1;

-- name: tables
-- The tables that are written all the time: live and dead rows (PostgreSQL's estimates), size, when vacuum was there last, whether
-- it comes by itself, and how many bytes the live rows would need at the table's fillfactor (null before the first ANALYZE).
SELECT s.relname AS table_name, s.n_live_tup AS live, s.n_dead_tup AS dead, pg_relation_size(s.relid) AS bytes,
       greatest(s.last_vacuum, s.last_autovacuum) AS vacuumed_at,
       coalesce((SELECT option_value::boolean FROM pg_options_to_table(c.reloptions) WHERE option_name = 'autovacuum_enabled'),
                true) AS is_vacuumed,
       (s.n_live_tup * (28 + (SELECT sum(avg_width * (1 - null_frac)) FROM pg_stats
                              WHERE schemaname = s.schemaname AND tablename = s.relname))
        * 100 / coalesce((SELECT option_value::integer FROM pg_options_to_table(c.reloptions) WHERE option_name = 'fillfactor'),
                         100))::bigint AS needed
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE s.schemaname = 'horarium'
  AND s.relname IN ('timers', 'runs', 'jobs', 'shards', 'nodes', 'workers', 'rollups', 'idempotency_keys')
ORDER BY s.n_dead_tup DESC, s.relname;

-- name: upkeep
-- Whether vacuum comes by itself, and how far this database is from the end of its transaction ids.
SELECT current_setting('autovacuum')::boolean AS autovacuum, current_setting('track_counts')::boolean AS counts,
       age(datfrozenxid) AS frozen_age, current_setting('autovacuum_freeze_max_age')::integer AS freeze_at
FROM pg_database WHERE datname = current_database();

-- name: shards_without_leader
-- Shards that no live node leads: their jobs do not run.
SELECT count(*) FILTER (WHERE lease_expires_at IS NULL OR lease_expires_at < now()) AS leaderless, count(*) AS shards
FROM shards WHERE state = 'here';

-- name: room
-- How near the server is to its limit of connections, and which version it is.
SELECT (SELECT count(*) FROM pg_stat_activity) AS used, current_setting('max_connections')::integer AS most,
       current_setting('server_version_num')::integer AS version_num;
