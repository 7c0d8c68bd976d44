-- name: upsert
-- The workers that this node hears from, every ten seconds.
INSERT INTO workers (id, tenant_id, node_id, version, host, pid, queues, handlers, slots, running, last_seen_at)
SELECT x.*, now() FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::jsonb[], $8::jsonb[],
                              $9::integer[], $10::integer[]) AS x
ON CONFLICT (id) DO UPDATE
SET node_id = excluded.node_id, version = excluded.version, host = excluded.host, pid = excluded.pid, queues = excluded.queues,
    handlers = excluded.handlers, slots = excluded.slots, running = excluded.running, last_seen_at = excluded.last_seen_at;

-- name: remove
-- Workers that said goodbye.
DELETE FROM workers WHERE id = ANY($1::text[]);

-- name: prune
-- Workers that were not heard for an hour.
DELETE FROM workers WHERE last_seen_at < now() - interval '1 hour';
