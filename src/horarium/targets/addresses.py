"""Which addresses HTTP targets may reach: public ones, and private networks that the operator named.

A target's URL comes from whoever may define jobs. Without this guard it could make the worker ask its own machine, the
network behind the firewall or a cloud's metadata service. What is checked is the address a socket is about to connect to,
after the name was resolved, so neither a name that points inwards nor another way to write an address gets around it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from horarium import errors

VARIABLE = "HORARIUM_ALLOW_PRIVATE_TARGETS"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# What the library does not, or not in all supported versions, call private: special-purpose blocks (RFC 6890 and its
# registries), and Azure's platform address, which is public by number and answers about the machine that asks.
_SPECIAL = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "64:ff9b:1::/48", "2001::/23", "3fff::/20", "5f00::/16",
    )
)  # fmt: skip
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class ForbiddenAddressError(OSError):
    """A target leads to an address that is not public and was not allowed."""


class Guard:
    """Says whether an address may be reached. `allowed` are networks that may be although they are private."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    def is_allowed(self, text: str) -> bool:
        """True for an address (as a socket has it, perhaps with a zone) that may be connected to."""
        address = _real(ipaddress.ip_address(text.partition("%")[0]))
        return _is_public(address) or any(address in network for network in self._allowed)

    def check(self, text: str) -> None:
        """ForbiddenAddressError for an address that may not be connected to."""
        if not self.is_allowed(text):
            raise ForbiddenAddressError(f"{text} is not a public address; {VARIABLE} can allow its network")


def read(text: str) -> list[Network]:
    """The networks (CIDR, comma-separated) that a setting names; ConfigurationError for what is none."""
    try:
        return [ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise errors.ConfigurationError(f"{VARIABLE}: {error}; write networks like 10.0.0.0/8,fd00::/8") from None


def connector(guard: Guard, **settings: Any) -> aiohttp.TCPConnector:
    """A connector that connects only where the guard allows."""
    return aiohttp.TCPConnector(resolver=_Resolver(guard), socket_factory=_socket_factory(guard), **settings)


class _Resolver(AbstractResolver):
    """Resolves names to allowed addresses; forbidden ones are left out, and a name with no others is an error."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        addresses = [(kind, str(where[0])) for kind, _, _, _, where in found]
        allowed = [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)
            for kind, address in addresses
            if self._guard.is_allowed(address)
        ]
        if not allowed and addresses:
            raise ForbiddenAddressError(
                f"{host} is {addresses[0][1]}, which is not a public address; {VARIABLE} can allow its network"
            )
        return allowed

    async def close(self) -> None:
        """Nothing is kept."""


def _socket_factory(guard: Guard) -> Callable[[aiohttp.AddrInfoType], socket.socket]:
    """The last gate: no socket is made for a forbidden address, however the URL wrote it."""

    def make(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, where = info
        guard.check(str(where[0]))
        return socket.socket(family, kind, protocol)

    return make


def _is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _SPECIAL)


def _real(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only wraps it: mapped, 6to4, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
