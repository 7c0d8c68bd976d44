-- name: clock
-- The database's clock now, not at the start of the transaction.
SELECT clock_timestamp();

-- name: schema_is_hidden
-- Whether the schema is there but this session does not look into it: a pooler's role without its setting.
SELECT to_regclass('horarium.cluster') IS NOT NULL AND to_regclass('cluster') IS DISTINCT FROM to_regclass('horarium.cluster');
