-- name: clock
-- The database's clock now, not at the start of the transaction.
SELECT clock_timestamp();
