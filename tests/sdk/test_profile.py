"""Where address and key come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from horarium import errors
from horarium.sdk import profile


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose profile names a server and a key."""
    folder = tmp_path / "horarium"
    folder.mkdir()
    (folder / "profile.toml").write_text('url = "http://profile:1"\napi_key = "hrm_profile"\n')
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_the_profile_is_the_last_resort(home: dict[str, str]) -> None:
    assert profile.resolve(environ=home) == profile.Connection(("http://profile:1",), "hrm_profile")


def test_the_environment_wins_over_the_profile_and_arguments_over_both(home: dict[str, str]) -> None:
    environ = {**home, "HORARIUM_URL": "http://env:1", "HORARIUM_API_KEY": "hrm_env"}
    assert profile.resolve(environ=environ) == profile.Connection(("http://env:1",), "hrm_env")
    assert profile.resolve("http://arg:1", "hrm_arg", environ=environ) == profile.Connection(
        ("http://arg:1",), "hrm_arg"
    )


def test_a_key_of_the_profile_goes_to_no_other_address(home: dict[str, str]) -> None:
    assert profile.resolve("http://other:1", environ=home).api_key == ""
    assert profile.resolve("http://profile:1/", environ=home).api_key == "hrm_profile"


def test_several_nodes_and_surplus_slashes() -> None:
    found = profile.resolve(" https://a:1/ ,http://b/base/,", "k", environ={"HORARIUM_PROFILE": "/nowhere"})
    assert found.urls == ("https://a:1", "http://b/base")


def test_keys_from_files(home: dict[str, str], tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("hrm_file\n")
    assert profile.resolve(environ={**home, "HORARIUM_API_KEY_FILE": str(key)}).api_key == "hrm_file"
    assert profile.resolve(api_key_file=key, environ=home).api_key == "hrm_file"
    with pytest.raises(errors.ConfigurationError, match="cannot be read"):
        profile.resolve(api_key_file=tmp_path / "none", environ=home)


def test_the_key_that_dev_keeps_in_its_data_directory(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text("hrm_dev\n")
    own = tmp_path / "own.toml"
    own.write_text(f'url = "http://dev:1"\ndata_dir = "{tmp_path}"\n')
    assert profile.resolve(profile=own, environ={}).api_key == "hrm_dev"
    assert profile.resolve(environ={"HORARIUM_PROFILE": str(own)}).api_key == "hrm_dev"


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    nothing = {"HORARIUM_PROFILE": str(tmp_path / "none.toml")}
    with pytest.raises(errors.ConfigurationError, match="set HORARIUM_URL"):
        profile.resolve(environ=nothing)
    with pytest.raises(errors.ConfigurationError, match="not an address"):
        profile.resolve("localhost:8080", environ=nothing)
    with pytest.raises(errors.ConfigurationError, match="There is no profile"):
        profile.resolve(profile=tmp_path / "none.toml", environ=nothing)
    broken = tmp_path / "broken.toml"
    broken.write_text("url =")
    with pytest.raises(errors.ConfigurationError, match="is not valid"):
        profile.resolve(profile=broken, environ=nothing)


def test_the_key_is_not_shown() -> None:
    assert "hrm_" not in repr(profile.Connection(("http://a",), "hrm_secret"))
