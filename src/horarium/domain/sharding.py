"""Which shard a job belongs to: decided by its tenant and name, fixed for the life of a cluster."""

from __future__ import annotations

import hashlib

DEFAULT_SHARDS = 16


def shard_of_name(tenant_id: str, name: str, shards: int) -> int:
    """The shard of a job: a hash of (tenant, name), so that a tenant's unique name is enforced inside one shard."""
    digest = hashlib.blake2b(f"{tenant_id}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards
