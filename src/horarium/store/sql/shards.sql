-- name: renew
-- Extends the leases of the shards this node leads, where its term still stands; also the measurement of the clock.
UPDATE shards s SET lease_expires_at = now() + $3::interval
FROM unnest($1::smallint[], $2::bigint[]) AS mine(shard, term)
WHERE s.shard = mine.shard AND s.term = mine.term AND s.leader = $4
RETURNING s.shard;

-- name: take
-- Takes shards that nobody leads, or whose leader's lease has ended: the term rises. At most $3 of them. One that is being moved
-- to another database, or was, cannot be led. A lease that ends much later than one granted now was written before the clock was
-- set back: it has ended, too, or a leader that died meanwhile would be waited for until the clock is where it was (rule M4).
UPDATE shards s SET leader = $1, term = s.term + 1, lease_expires_at = now() + $2::interval
FROM (SELECT shard FROM shards
      WHERE state = 'here' AND (leader IS NULL OR lease_expires_at NOT BETWEEN now() AND now() + 2 * $2::interval)
      ORDER BY shard LIMIT $3 FOR UPDATE SKIP LOCKED) AS free
WHERE s.shard = free.shard
RETURNING s.shard, s.term;

-- name: release
-- Gives shards back in order, so that another node may take them at once.
UPDATE shards s SET leader = NULL, lease_expires_at = NULL
FROM unnest($1::smallint[], $2::bigint[]) AS mine(shard, term)
WHERE s.shard = mine.shard AND s.term = mine.term AND s.leader = $3;

-- name: all
-- Who leads what, of the shards that live here; leases are $1 long (see take).
SELECT shard, leader, term, lease_expires_at, coalesce(lease_expires_at BETWEEN now() AND now() + 2 * $1::interval, false) AS alive
FROM shards
WHERE state = 'here' ORDER BY shard;

-- name: beat
-- This node lives: each second, before its leases are renewed, so that it never outlives them in the eyes of others.
INSERT INTO nodes (id, url, version, host, pid) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE
SET url = excluded.url, version = excluded.version, started_at = least(nodes.started_at, now()), last_seen_at = now();

-- name: live_nodes
-- The nodes that were seen within $1; not those whose last sign lies ahead, for the clock was set back since. One that was seen
-- once only is not counted on yet (`counts`).
SELECT id, url, version, host, pid, last_seen_at > started_at AS counts FROM nodes
WHERE last_seen_at BETWEEN now() - $1::interval AND now() + $1::interval ORDER BY id;

-- name: nodes
-- Nodes that were seen within $1, for people who look; alive are those that were seen within $2.
SELECT id, url, version, host, pid, started_at, last_seen_at,
       last_seen_at BETWEEN now() - $2::interval AND now() + $2::interval AS alive
FROM nodes
WHERE last_seen_at > now() - $1::interval ORDER BY id;

-- name: remove_node
-- A node that stopped in order.
DELETE FROM nodes WHERE id = $1;

-- name: prune_nodes
-- Nodes not seen for a day; and those whose last sign lies ahead: they would seem to live again when the clock gets there.
DELETE FROM nodes WHERE last_seen_at NOT BETWEEN now() - interval '1 day' AND now() + interval '1 minute';

-- name: states
-- How the shards that this database has rows of stand to it.
SELECT shard, state FROM shards ORDER BY shard;

-- name: first
-- The lowest shard that lives here: its leader looks after what is not divided into shards.
SELECT min(shard) FROM shards WHERE state = 'here';
