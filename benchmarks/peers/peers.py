"""The peers, Horarium first."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers import (
    apscheduler,
    awa,
    celery,
    graphile_worker,
    horarium,
    install,
    oban,
    pg_boss,
    pgqueuer,
    procrastinate,
)
from benchmarks.peers.peer import Peer, ProgramPeer

ALL: Sequence[Peer] = (
    horarium.Horarium(),
    graphile_worker.GraphileWorker(),
    pg_boss.PgBoss(),
    pgqueuer.PgQueuer(),
    awa.Awa(),
    oban.Oban(),
    procrastinate.Procrastinate(),
    celery.Celery(),
    apscheduler.APScheduler(),
)


def environments(names: Sequence[str]) -> list[install.Environment]:
    """What has to be installed for some peers, each once."""
    found = [peer.environment for peer in ALL if isinstance(peer, ProgramPeer) and peer.name in names]
    return list(dict.fromkeys(found))
