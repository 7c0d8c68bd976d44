-- name: lock_migrations
-- One migrator at a time: the advisory lock is held to the end of the transaction.
SELECT pg_advisory_xact_lock(7036581642317);

-- name: prepare_schema
-- The schema itself; each role that connects finds it without naming it, also behind a pooler.
CREATE SCHEMA IF NOT EXISTS horarium;

-- name: schema_exists
-- Whether anything was migrated here at all.
SELECT to_regclass('horarium.schema_version') IS NOT NULL;

-- name: create_schema_version
-- What was applied.
CREATE TABLE IF NOT EXISTS horarium.schema_version (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    phase       text NOT NULL CHECK (phase IN ('expand', 'contract')),
    checksum    text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
);

-- name: applied
-- Versions applied so far, with the checksum of their text.
SELECT version, name, phase, checksum, applied_at FROM horarium.schema_version ORDER BY version;

-- name: record_applied
-- One row for each migration.
INSERT INTO horarium.schema_version (version, name, phase, checksum) VALUES ($1, $2, $3, $4);

-- name: set_search_path
-- For this transaction: migrations create their objects in our schema.
SET LOCAL search_path = horarium, public;

-- name: use_schema
-- For the rest of this session: the connection was opened before the schema was there.
SET search_path = horarium, public;

-- name: insert_cluster_facts
-- Number of shards, the installation's id, the secret that signs cursors, and which of its databases this is: made once.
-- Returns whether it was now.
WITH made AS (
    INSERT INTO cluster (key, value)
    VALUES ('shards', $1::integer::text), ('cluster_id', $2::text), ('cursor_secret', $3::text),
           ('database', $4::integer::text), ('database_name', $5::text)
    ON CONFLICT DO NOTHING RETURNING key
)
SELECT EXISTS (SELECT FROM made WHERE key = 'cluster_id');

-- name: insert_shards
-- The logical shards that live here from the beginning.
INSERT INTO shards (shard) SELECT unnest($1::smallint[]) ON CONFLICT DO NOTHING;

-- name: next_number
-- The number of the next database of this installation, counted in the home database; $1 is the last one where none was kept.
INSERT INTO cluster (key, value) VALUES ('last_number', ($1::integer + 1)::text)
ON CONFLICT (key) DO UPDATE SET value = (cluster.value::integer + 1)::text
RETURNING value::integer;

-- name: number_ids
-- Ids of audit entries and skips are drawn from a range of each database's own ($1 × 2^46): no two databases give the same, and
-- every one of them is exact in JSON (below 2^53).
SELECT setval(pg_get_serial_sequence('audit', 'id'), $1::bigint << 46), setval(pg_get_serial_sequence('skips', 'id'), $1::bigint << 46);

-- name: make_partitions
-- Partitions from yesterday to a week ahead, so that the first runs find their place.
SELECT make_partitions((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + 7);

-- name: remember_search_path
-- Each later connection of this role to this database finds the schema, also behind a transaction-mode pooler.
DO $$ BEGIN
    EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET search_path = horarium, public', current_database());
END $$;

-- name: cluster_facts
-- The facts by key.
SELECT key, value FROM cluster;
