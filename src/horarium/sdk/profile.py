"""Where the server is, and as whom: read from arguments, environment and profile file.

    argument  >  HORARIUM_URL, HORARIUM_API_KEY, HORARIUM_API_KEY_FILE  >  profile file

The profile is `$HORARIUM_PROFILE`, or `horarium/profile.toml` under `$XDG_CONFIG_HOME` (`~/.config`): TOML with `url`
and `api_key`, or `data_dir`, in whose file `api_key` `horarium dev` keeps its key. A key from the profile goes only to
the address that stands beside it. Standard library only: the command line reads this, too.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from horarium import errors


@dataclass(frozen=True, slots=True)
class Connection:
    """Addresses of one cluster's nodes, in the order to try them, and the API key ('' when there is none)."""

    urls: tuple[str, ...]
    api_key: str = field(repr=False)


def resolve(
    url: str | None = None,
    api_key: str | None = None,
    *,
    api_key_file: Path | None = None,
    profile: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """The connection to use. `url` may name several nodes, comma-separated. ConfigurationError says what is missing."""
    kept = read(profile or path(environ), must_exist=profile is not None)
    profile_urls = _split(str(kept.get("url", "")))
    urls = _split(url or environ.get("HORARIUM_URL", "")) or profile_urls
    if not urls:
        raise errors.ConfigurationError(
            "No server address: set HORARIUM_URL (such as http://127.0.0.1:8080) or give `url`; "
            f"`horarium dev` writes one to {path(environ)}"
        )
    for address in urls:
        _check(address)
    key = api_key or _read_key(api_key_file) or environ.get("HORARIUM_API_KEY") or _key_file_of(environ)
    if not key and set(urls) <= set(profile_urls):
        key = _profile_key(kept)
    return Connection(urls, (key or "").strip())


def path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the profile file is, whether or not it exists."""
    named = environ.get("HORARIUM_PROFILE")
    if named:
        return Path(named)
    home = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config"
    return Path(home) / "horarium" / "profile.toml"


def read(file: Path, *, must_exist: bool = False) -> dict[str, Any]:
    """The members of a profile file; empty when there is none."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise errors.ConfigurationError(f"There is no profile {file}") from None
        return {}
    except OSError as error:
        raise errors.ConfigurationError(f"The profile {file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # TOML syntax, or bytes that are not UTF-8
        raise errors.ConfigurationError(f"The profile {file} is not valid: {error}") from None


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())


def _check(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise errors.ConfigurationError(f"{address!r} is not an address; write it like http://127.0.0.1:8080")


def _key_file_of(environ: Mapping[str, str]) -> str:
    named = environ.get("HORARIUM_API_KEY_FILE")
    return _read_key(Path(named)) if named else ""


def _profile_key(kept: Mapping[str, Any]) -> str:
    if kept.get("api_key") or not kept.get("data_dir"):
        return str(kept.get("api_key", ""))
    file = Path(str(kept["data_dir"])) / "api_key"
    return _read_key(file) if file.exists() else ""


def _read_key(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigurationError(f"The key file {file} cannot be read: {error}") from None
