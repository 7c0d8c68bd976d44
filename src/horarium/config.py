"""The server's configuration: one frozen value, validated whole.

A value comes from, later ones winning:

    default < DATABASE_URL (database_url only) < horarium.toml < environment HORARIUM_* < flags

`horarium.toml` is looked for in the working directory; `HORARIUM_CONFIG` names another file. A secret may stand in a
file of its own: `HORARIUM_DATABASE_URL_FILE`. Durations carry their unit: `15s`. An empty environment variable counts
as unset.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import pydantic
import pydantic_settings
from pydantic.fields import FieldInfo

from horarium import durations, errors, postgres_url

PREFIX = "HORARIUM_"
FILE_NAME = "horarium.toml"
SECRETS = frozenset({"database_url", "cluster_secret"})
MOST_DATABASES = 32

# Read by the command line, the SDK and the tests; not settings of the server.
_OTHER_NAMES = frozenset({"URL", "API_KEY", "API_KEY_FILE", "PROFILE", "CONFIG"})
_OTHER_PREFIXES = ("TEST_", "BENCH_", "WORKER_")
# Kubernetes announces a Service called `horarium` with HORARIUM_PORT=tcp://10.0.0.7:8080 and several more like it.
_SERVICE_LINK_NAME = re.compile(r"SERVICE_(HOST|PORT\w*)|PORT_[0-9]+_(TCP|UDP)\w*")
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp)://")
# A comma ends an address only where the next one begins: an address may list the hosts of one database.
_NEXT_DATABASE = re.compile(r"\s*,\s*(?=(?:[A-Za-z][A-Za-z0-9_-]*=)?postgres(?:ql)?://)")
_DATABASE_NAME = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31})=(?=postgres(?:ql)?://)")


def _to_duration(value: object) -> object:
    if isinstance(value, str):
        return durations.parse_duration(value)
    if isinstance(value, int | float):
        raise ValueError(f'{value} has no unit; write "{value}s" for seconds')
    return value


def _to_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _to_text(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _to_lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _to_base_path(value: str) -> str:
    path = value.strip().strip("/")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", path):
        raise ValueError("only letters, digits and . _ ~ - / may stand in a path")
    return f"/{path}" if path else ""


class DatabaseAddress(NamedTuple):
    """One of the databases: what people call it, and where it is."""

    name: str
    url: str


def databases_in(text: str) -> tuple[DatabaseAddress, ...]:
    """The databases that a text names: `address`, or `address,address`, or `name=address,name=address`.

    A comma ends an address only where the next one begins, for an address may list hosts. Databases without a name are called
    a, b, c by their place. ValueError says what is wrong, and shows no part of an address.
    """
    parts = _NEXT_DATABASE.split(text.strip())
    found = [
        _database(part, string.ascii_lowercase[place % 26] * (1 + place // 26)) for place, part in enumerate(parts)
    ]
    if len(found) > MOST_DATABASES:
        raise ValueError(f"names {len(found)} databases; there can be {MOST_DATABASES}")
    for what, values in (("name", [each.name for each in found]), ("address", [each.url for each in found])):
        if len(set(values)) < len(values):
            raise ValueError(f"has two databases with the same {what}")
    return tuple(found)


def _database(text: str, usual_name: str) -> DatabaseAddress:
    named = _DATABASE_NAME.match(text)
    name, url = (named[1], text[named.end() :]) if named else (usual_name, text)
    try:
        postgres_url.parse(url)
    except ValueError as error:
        raise ValueError(str(error) if text == url and usual_name == "a" else f"database {name}: {error}") from None
    return DatabaseAddress(name, url)


def _check_database_url(value: str) -> str:
    databases_in(value)
    return value


def _check_http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be like http://host:port")
    return value.rstrip("/")


Duration = Annotated[timedelta, pydantic.BeforeValidator(_to_duration)]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_INSTANT = timedelta(0)


class Settings(pydantic_settings.BaseSettings):
    """Everything a server may be told. Arguments win over the environment, which wins over the file.

    `load` gives the same value with the origin of each part and readable faults; use it where people configure things.
    """

    model_config = pydantic_settings.SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database_url: Annotated[str, pydantic.BeforeValidator(_to_text), pydantic.AfterValidator(_check_database_url)] = (
        pydantic.Field(
            repr=False,
            description="Address of the PostgreSQL database, with user and password; several are separated by commas, the home "
            "database first.",
        )
    )
    host: str = pydantic.Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = pydantic.Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    node_url: Annotated[str, pydantic.AfterValidator(_check_http_url)] | None = pydantic.Field(
        None, description="Address at which other nodes and workers reach this node."
    )
    cluster_secret: str | None = pydantic.Field(
        None,
        min_length=16,
        repr=False,
        description="What the nodes of a cluster prove to each other that they know; one of the database's own, if not set.",
    )
    base_path: Annotated[str, pydantic.AfterValidator(_to_base_path)] = pydantic.Field(
        "", description="Path under which a proxy serves this node, such as /horarium."
    )
    pool_size: int = pydantic.Field(10, ge=2, le=1000, description="Most connections to each database.")
    statement_cache: int = pydantic.Field(
        100, ge=0, le=100_000, description="Prepared statements kept a connection; 0 behind a transaction-mode pooler."
    )
    lookahead: Duration = pydantic.Field(
        timedelta(seconds=10), gt=_INSTANT, le=timedelta(hours=1), description="How far ahead runs are planned."
    )
    lease: Duration = pydantic.Field(
        timedelta(seconds=15),
        ge=timedelta(milliseconds=500),
        le=timedelta(hours=1),
        description="How long a silent worker keeps its runs.",
    )
    early_claim: Duration = pydantic.Field(
        timedelta(milliseconds=100),
        ge=_INSTANT,
        le=timedelta(seconds=5),
        description="How long before its time a run may be handed to an idle worker, which starts it on time.",
    )
    sweep_interval: Duration = pydantic.Field(
        timedelta(seconds=30), gt=_INSTANT, le=timedelta(hours=1), description="How often memory is compared with rows."
    )
    snapshot_alarm: Duration = pydantic.Field(
        timedelta(minutes=10),
        gt=_INSTANT,
        le=timedelta(days=7),
        description="Age from which somebody's open transaction, which keeps tables from being cleaned, is told of.",
    )
    shards: int = pydantic.Field(16, ge=1, le=4096, description="Shards of a new cluster; fixed by `horarium db init`.")
    max_ready: int = pydantic.Field(
        200_000, ge=100, le=10_000_000, description="Most runs kept in memory; the others wait in the table."
    )
    history_days: int = pydantic.Field(30, ge=1, le=3650, description="Days for which finished runs and logs are kept.")
    log_level: Annotated[Literal["debug", "info", "warning", "error"], pydantic.BeforeValidator(_to_lower)] = (
        pydantic.Field("info", description="Least important log line that is written.")
    )
    log_format: Annotated[Literal["json", "console"], pydantic.BeforeValidator(_to_lower)] = pydantic.Field(
        "json", description="Log lines for programs or for people."
    )
    allow_private_targets: Annotated[tuple[Network, ...], pydantic.BeforeValidator(_to_list)] = pydantic.Field(
        (), description="Private networks (CIDR) that HTTP targets may reach."
    )
    env: str = pydantic.Field(
        "live", pattern=r"^[a-z0-9]{1,16}$", description="Name of the installation; stands in each API key."
    )

    @property
    def databases(self) -> tuple[DatabaseAddress, ...]:
        """The databases, the home database first."""
        return databases_in(self.database_url)

    @property
    def home_url(self) -> str:
        """The address of the home database: of keys, tenants and facts."""
        return self.databases[0].url

    @pydantic.model_validator(mode="after")
    def _check_together(self) -> Settings:
        if self.early_claim >= self.lookahead:
            raise ValueError("early_claim must be shorter than lookahead")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[pydantic_settings.BaseSettings],
        init_settings: pydantic_settings.PydanticBaseSettingsSource,
        env_settings: pydantic_settings.PydanticBaseSettingsSource,
        dotenv_settings: pydantic_settings.PydanticBaseSettingsSource,
        file_secret_settings: pydantic_settings.PydanticBaseSettingsSource,
    ) -> tuple[pydantic_settings.PydanticBaseSettingsSource, ...]:
        """Arguments, then what `surroundings` finds: no value is present that nobody wrote, so no default can win."""
        return init_settings, _SurroundingsSource(settings_cls)


class Sourced(NamedTuple):
    """A value as it was written, and where: `flag`, the name of an environment variable, or a file."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, where each written value came from (absent: a default), and what looks odd but does no harm."""

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...]


def load(flags: Mapping[str, Any] | None = None) -> Loaded:
    """Read flags, environment and file; flags that are None were not given. ConfigurationError names every fault."""
    written = collect(flags)
    unknown, warnings = unknown_variables(os.environ)
    faults = [*unknown]
    try:
        settings = Settings(**{name: sourced.value for name, sourced in written.items()})
    except pydantic.ValidationError as error:
        faults += [_explain(fault, written) for fault in error.errors(include_url=False, include_input=False)]
    if faults:
        raise errors.ConfigurationError("\n".join(faults))
    return Loaded(settings, {name: sourced.origin for name, sourced in written.items()}, warnings)


def collect(flags: Mapping[str, Any] | None = None) -> dict[str, Sourced]:
    """Every value that somebody wrote, by name, unvalidated, with its origin; the strongest writer wins."""
    given = {name: Sourced(value, "flag") for name, value in (flags or {}).items() if value is not None}
    return surroundings() | given


def surroundings() -> dict[str, Sourced]:
    """What the environment and the file say."""
    return _fallback(os.environ) | _from_file(os.environ) | _from_environment(os.environ)


def unknown_variables(environ: Mapping[str, str]) -> tuple[list[str], tuple[str, ...]]:
    """Variables with our prefix that are no setting: likely misspellings (faults), and others (warnings)."""
    faults, warnings = [], []
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if name == variable or _is_known(name):
            continue
        guess = _guess(name.lower())
        if guess:
            faults.append(f"{variable}: no such setting; did you mean {PREFIX}{guess.upper()}?")
        else:
            warnings.append(f"{variable} is not a setting and has no effect")
    return faults, tuple(warnings)


class _SurroundingsSource(pydantic_settings.PydanticBaseSettingsSource):
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return {name: sourced.value for name, sourced in surroundings().items()}


def _from_file(environ: Mapping[str, str]) -> dict[str, Sourced]:
    named = environ.get(f"{PREFIX}CONFIG")
    path = Path(named or FILE_NAME)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise errors.ConfigurationError(f"{PREFIX}CONFIG: there is no file {path}") from None
        return {}
    except OSError as error:
        raise errors.ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # TOML syntax, or bytes that are not UTF-8
        raise errors.ConfigurationError(f"{path}: {error}") from None
    return {name: Sourced(value, str(path)) for name, value in content.items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Sourced]:
    found = {}
    for name in Settings.model_fields:
        variable = f"{PREFIX}{name.upper()}"
        value = environ.get(variable, "")
        if value and not (name == "port" and _SERVICE_LINK_VALUE.match(value)):
            found[name] = Sourced(value, variable)
        if name in SECRETS and environ.get(f"{variable}_FILE"):
            found[name] = _from_secret_file(f"{variable}_FILE", Path(environ[f"{variable}_FILE"]), name in found)
    return found


def _from_secret_file(variable: str, path: Path, doubled: bool) -> Sourced:
    if doubled:
        raise errors.ConfigurationError(f"{variable}: set either this or {variable.removesuffix('_FILE')}, not both")
    try:
        return Sourced(path.read_text(encoding="utf-8").strip(), variable)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigurationError(f"{variable}: {path} cannot be read: {error}") from None


def _fallback(environ: Mapping[str, str]) -> dict[str, Sourced]:
    url = environ.get("DATABASE_URL")
    return {"database_url": Sourced(url, "DATABASE_URL")} if url else {}


def _is_known(name: str) -> bool:
    setting = name.lower()
    return (
        setting in Settings.model_fields
        or setting.removesuffix("_file") in SECRETS
        or name in _OTHER_NAMES
        or name.startswith(_OTHER_PREFIXES)
        or _SERVICE_LINK_NAME.fullmatch(name) is not None
    )


def _guess(name: str) -> str | None:
    close = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.75)
    return close[0] if close else None


def _explain(fault: Any, written: Mapping[str, Sourced]) -> str:
    """One line for people: which setting, what is wrong, where it was written, and what may have been meant."""
    name = str(fault["loc"][0]) if fault["loc"] else ""
    origin = f" (from {written[name].origin})" if name in written else ""
    if fault["type"] == "missing":
        return f"{name}: is missing; set {PREFIX}{name.upper()} or write it into {FILE_NAME}"
    if fault["type"] == "extra_forbidden":
        guess = _guess(name)
        return f"{name}: no such setting{origin}" + (f"; did you mean {guess}?" if guess else "")
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{name}: {message}{origin}" if name else message
