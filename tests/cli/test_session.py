from __future__ import annotations

from pathlib import Path

import pytest

from horarium import errors
from horarium.cli import options, session
from tests.cli.conftest import Reply, Server


def key_sent(server: Server, invocation: options.Invocation) -> str:
    session.open_client(invocation).get("/v1/x")
    return server.requests[-1].headers.get("Authorization", "")


def test_flags_win_over_the_environment_over_the_profile(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET", "/v1/x", Reply(200, 1))
    profile = tmp_path / "other.toml"
    profile.write_text(f'url = "{server.url}"\napi_key = "of-the-profile"', encoding="utf-8")
    assert key_sent(server, options.Invocation(profile=profile)) == "Bearer of-the-profile"
    monkeypatch.setenv("HORARIUM_API_KEY", "of-the-environment")
    assert key_sent(server, options.Invocation(profile=profile)) == "Bearer of-the-environment"
    flag = tmp_path / "key"
    flag.write_text("of-the-flag\n", encoding="utf-8")
    assert key_sent(server, options.Invocation(profile=profile, api_key_file=flag)) == "Bearer of-the-flag"


def test_a_key_of_the_profile_goes_to_its_own_server_only(server: Server, tmp_path: Path) -> None:
    server.on("GET", "/v1/x", Reply(200, 1))
    profile = tmp_path / "other.toml"
    profile.write_text('url = "https://production.example"\napi_key = "secret"', encoding="utf-8")
    assert key_sent(server, options.Invocation(url=server.url, profile=profile)) == ""


def test_no_address_at_all() -> None:
    with pytest.raises(errors.ConfigurationError, match="HORARIUM_URL"):
        session.open_client(options.Invocation())
