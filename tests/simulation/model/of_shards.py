"""The statements of `shards.sql` and `database.sql`, on the model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from horarium.store import database, shards
from tests.simulation.model.answers import Answer, answers
from tests.simulation.model.rows import Fields, only
from tests.simulation.model.server import Transaction

SQL = shards.SQL


@answers(database.SQL.clock)
async def clock(tx: Transaction) -> Answer:
    return [{"clock_timestamp": tx.server.now()}]


async def _mine(tx: Transaction, numbers: Sequence[int], terms: Sequence[int], node_id: str) -> list[Fields]:
    wanted = dict(zip(numbers, terms, strict=True))
    return await tx.matching("shards", numbers, lambda r: r["term"] == wanted[r["shard"]] and r["leader"] == node_id)


@answers(SQL.renew)
async def renew(
    tx: Transaction, numbers: Sequence[int], terms: Sequence[int], lease: timedelta, node_id: str
) -> Answer:
    rows = await _mine(tx, numbers, terms, node_id)
    for row in rows:
        tx.put("shards", row["shard"], {**row, "lease_expires_at": tx.now + lease})
    return [only(row, "shard") for row in rows]


@answers(SQL.take)
async def take(tx: Transaction, node_id: str, lease: timedelta, limit: int) -> Answer:
    rows = [row for row in tx.rows("shards").values() if row["state"] == "here" and not _is_led(tx, row, lease)]
    taken = tx.free_rows("shards", sorted(rows, key=lambda row: row["shard"]), "shard", limit)
    for row in taken:
        led = {"leader": node_id, "term": row["term"] + 1, "lease_expires_at": tx.now + lease}
        tx.put("shards", row["shard"], {**row, **led})
    return [{"shard": row["shard"], "term": row["term"] + 1} for row in taken]


def _is_led(tx: Transaction, row: Fields, lease: timedelta) -> bool:
    return row["leader"] is not None and _holds(tx, row, lease)


def _holds(tx: Transaction, row: Fields, lease: timedelta) -> bool:
    return row["lease_expires_at"] is not None and tx.now <= row["lease_expires_at"] <= tx.now + 2 * lease


@answers(SQL.release)
async def release(tx: Transaction, numbers: Sequence[int], terms: Sequence[int], node_id: str) -> Answer:
    rows = await _mine(tx, numbers, terms, node_id)
    for row in rows:
        tx.put("shards", row["shard"], {**row, "leader": None, "lease_expires_at": None})
    return len(rows)


@answers(SQL.all)
async def all_shards(tx: Transaction, lease: timedelta) -> Answer:
    rows = sorted(tx.rows("shards").values(), key=lambda row: row["shard"])
    return [
        {
            **only(row, "shard", "leader", "term", "lease_expires_at"),
            "alive": _holds(tx, row, lease),
        }
        for row in rows
        if row["state"] == "here"
    ]


@answers(SQL.beat)
async def beat(tx: Transaction, node_id: str, url: str | None, version: str, host: str, pid: int) -> Answer:
    before = await tx.hold("nodes", node_id)
    if before is None:
        row = {"id": node_id, "url": url, "version": version, "host": host, "pid": pid, "started_at": tx.now}
        tx.put("nodes", node_id, {**row, "last_seen_at": tx.now})
    else:
        tx.put(
            "nodes",
            node_id,
            {
                **before,
                "url": url,
                "version": version,
                "last_seen_at": tx.now,
                "started_at": min(before["started_at"], tx.now),
            },
        )
    return 1


@answers(SQL.live_nodes)
async def live_nodes(tx: Transaction, within: timedelta) -> Answer:
    rows = sorted(tx.rows("nodes").values(), key=lambda row: row["id"])
    return [
        {**only(row, "id", "url", "version", "host", "pid"), "counts": row["last_seen_at"] > row["started_at"]}
        for row in rows
        if tx.now - within <= row["last_seen_at"] <= tx.now + within
    ]


@answers(SQL.remove_node)
async def remove_node(tx: Transaction, node_id: str) -> Answer:
    rows = await tx.matching("nodes", [node_id], lambda r: True)
    for row in rows:
        tx.put("nodes", row["id"], None)
    return len(rows)
