"""The server settings of an embedded cluster, for a machine of about two cores that also does other things."""

from __future__ import annotations

from collections.abc import Mapping

TUNED = {
    "shared_buffers": "256MB",
    "huge_pages": "try",
    "max_connections": "200",
    "effective_cache_size": "2GB",
    "random_page_cost": "1.1",  # solid-state disks
    "jit": "off",  # our statements are short: compiling costs more than it gains
    "wal_compression": "off",  # these binaries have no lz4, and pglz costs more than it saves
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "cluster_name": "horarium",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "log_startup_progress_interval": "3s",  # read back while waiting for recovery
}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# For tests: as fast as can be, lost when the machine stops (not when PostgreSQL is killed).
VOLATILE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def effective(given: Mapping[str, str], *, port: int, durable: bool) -> dict[str, str]:
    """Return all settings: `given` wins over what is tuned here, but not over where the server is found."""
    # The socket stands in the data directory, where the server works: a relative name has no length to worry about.
    places = {"port": str(port), "unix_socket_directories": "."}
    return TUNED | (DURABLE if durable else VOLATILE) | dict(given) | places


def arguments(settings: Mapping[str, str]) -> list[str]:
    """Return the command line that sets `settings`."""
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
