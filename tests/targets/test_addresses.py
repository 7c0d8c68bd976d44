"""Which addresses HTTP targets may reach."""

from __future__ import annotations

import pytest

from horarium import errors
from horarium.targets import addresses

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34", "64:ff9b::808:808"]
PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.100.100.200", "100.64.0.1", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:a00:1", "fe80::1", "fe80::1%eth0",
    "fc00::1", "fd00:ec2::254", "ff02::1", "2002:7f00:1::", "2002:a00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2001:db8::1", "2001::1",
]  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_may_be_reached(text: str) -> None:
    assert addresses.Guard().is_allowed(text)


@pytest.mark.parametrize("text", PRIVATE)
def test_others_may_not(text: str) -> None:
    with pytest.raises(addresses.ForbiddenAddressError, match="HORARIUM_ALLOW_PRIVATE_TARGETS"):
        addresses.Guard().check(text)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("10.2.0.1", False), ("fd00::7", True), ("127.0.0.1", False)],
)
def test_networks_can_be_allowed(text: str, allowed: bool) -> None:
    guard = addresses.Guard(addresses.read("10.1.0.0/16, fd00::/8"))
    assert guard.is_allowed(text) is allowed
    assert guard.is_allowed("8.8.8.8")


@pytest.mark.parametrize("text", ["10.0.0.0/33", "localhost", "10.0.0.1/8"])
def test_a_setting_that_names_no_network_is_refused(text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="HORARIUM_ALLOW_PRIVATE_TARGETS"):
        addresses.read(text)


def test_nothing_is_allowed_unless_named() -> None:
    assert addresses.read("") == []
