from __future__ import annotations

import os
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pydantic
import pytest

from horarium import config, errors

URL = "postgresql://user:secret@db.example/horarium"


@pytest.fixture(autouse=True)
def _clean_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("HORARIUM_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(text: str) -> None:
    Path("horarium.toml").write_text(text, encoding="utf-8")


def faults(**flags: object) -> list[str]:
    with pytest.raises(errors.ConfigurationError) as caught:
        config.load(flags)
    return str(caught.value).splitlines()


def test_defaults_of_the_environment_do_not_overwrite_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write(f'database_url = "{URL}"\nport = 9000\nlookahead = "20s"\nhost = "0.0.0.0"')
    monkeypatch.setenv("HORARIUM_HOST", "::1")

    loaded = config.load({"port": None})

    assert (loaded.settings.port, loaded.settings.lookahead) == (9000, timedelta(seconds=20))
    assert loaded.settings.host == "::1"
    assert loaded.origins == {
        "database_url": "horarium.toml",
        "port": "horarium.toml",
        "lookahead": "horarium.toml",
    } | {"host": "HORARIUM_HOST"}


def test_file_then_environment_then_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    write(f'database_url = "{URL}"\nport = 1001')
    assert config.load().settings.port == 1001
    monkeypatch.setenv("HORARIUM_PORT", "1002")
    assert config.load().settings.port == 1002
    loaded = config.load({"port": 1003})
    assert loaded.settings.port == 1003
    assert loaded.origins["port"] == "flag"


def test_the_value_itself_reads_its_surroundings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORARIUM_PORT", "1002")
    assert config.Settings(database_url=URL).port == 1002
    assert config.Settings(database_url=URL, port=7).port == 7


def test_the_defaults() -> None:
    settings = config.load({"database_url": URL}).settings
    assert (settings.host, settings.port, settings.shards, settings.env) == ("127.0.0.1", 8080, 16, "live")
    assert settings.lease == timedelta(seconds=15)
    assert settings.early_claim == timedelta(milliseconds=100)
    assert settings.allow_private_targets == ()


def test_settings_are_frozen() -> None:
    settings = config.Settings(database_url=URL)
    with pytest.raises(pydantic.ValidationError):
        settings.port = 1


@pytest.mark.parametrize(
    ("environment", "file", "origin"),
    [
        ({"DATABASE_URL": URL}, "", "DATABASE_URL"),
        ({"DATABASE_URL": "postgresql://app/x"}, f'database_url = "{URL}"', "horarium.toml"),
        ({"DATABASE_URL": "postgresql://app/x", "HORARIUM_DATABASE_URL": URL}, "", "HORARIUM_DATABASE_URL"),
    ],
)
def test_the_common_variable_is_the_last_resort(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], file: str, origin: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    write(file)
    loaded = config.load()
    assert (loaded.settings.database_url, loaded.origins["database_url"]) == (URL, origin)


def test_a_secret_may_stand_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(URL + "\n", encoding="utf-8")
    monkeypatch.setenv("HORARIUM_DATABASE_URL_FILE", str(secret))
    loaded = config.load()
    assert loaded.settings.database_url == URL
    assert loaded.origins["database_url"] == "HORARIUM_DATABASE_URL_FILE"

    monkeypatch.setenv("HORARIUM_DATABASE_URL", URL)
    assert "not both" in faults()[0]
    monkeypatch.delenv("HORARIUM_DATABASE_URL")
    secret.unlink()
    assert "cannot be read" in faults()[0]


def test_the_clusters_secret_is_no_short_word_and_may_stand_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HORARIUM_DATABASE_URL", URL)
    assert config.load().settings.cluster_secret is None
    monkeypatch.setenv("HORARIUM_CLUSTER_SECRET", "short")
    assert "at least 16 characters" in faults()[0]
    monkeypatch.delenv("HORARIUM_CLUSTER_SECRET")
    secret = tmp_path / "secret"
    secret.write_text("known to all of its nodes\n", encoding="utf-8")
    monkeypatch.setenv("HORARIUM_CLUSTER_SECRET_FILE", str(secret))
    settings = config.load().settings
    assert settings.cluster_secret == "known to all of its nodes"
    assert "known to all" not in repr(settings)


def test_another_file_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write("port = 1")
    other = tmp_path / "other.toml"
    monkeypatch.setenv("HORARIUM_CONFIG", str(other))
    assert "there is no file" in faults(database_url=URL)[0]
    other.write_text("port = 2", encoding="utf-8")
    assert config.load({"database_url": URL}).settings.port == 2


def test_every_fault_is_told_at_once_with_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    write('prot = 1\nlease = 15\nearly_claim = "soon"\nallow_private_targets = ["10.0.0.0/40"]')
    monkeypatch.setenv("HORARIUM_PORT", "70000")
    monkeypatch.setenv("HORARIUM_DATABSE_URL", URL)
    told = "\n".join(faults())
    assert "HORARIUM_DATABSE_URL: no such setting; did you mean HORARIUM_DATABASE_URL?" in told
    assert "database_url: is missing; set HORARIUM_DATABASE_URL" in told
    assert "prot: no such setting (from horarium.toml); did you mean port?" in told
    assert 'lease: 15 has no unit; write "15s" for seconds (from horarium.toml)' in told
    assert "early_claim: 'soon' is not a duration" in told
    assert "(from HORARIUM_PORT)" in told
    assert "allow_private_targets" in told


def test_a_broken_file_is_told_with_its_place() -> None:
    write("port = = 1")
    assert faults(database_url=URL)[0].startswith("horarium.toml: ")
    assert "line 1" in faults(database_url=URL)[0]


def test_settings_that_contradict_each_other() -> None:
    assert faults(database_url=URL, early_claim="2s", lookahead="1s") == ["early_claim must be shorter than lookahead"]


def test_a_fault_never_shows_the_secret() -> None:
    told = faults(database_url="mysql://user:secret@db/x")
    assert told == ["database_url: must begin with postgresql:// (from flag)"]
    assert "secret" not in repr(config.Settings(database_url=URL))


def test_variables_that_kubernetes_adds_for_a_service_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORARIUM_PORT", "tcp://10.0.0.7:8080")
    monkeypatch.setenv("HORARIUM_SERVICE_HOST", "10.0.0.7")
    monkeypatch.setenv("HORARIUM_PORT_8080_TCP_ADDR", "10.0.0.7")
    loaded = config.load({"database_url": URL})
    assert loaded.settings.port == 8080
    assert loaded.warnings == ()


def test_unknown_variables_that_resemble_nothing_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORARIUM_WEBHOOK_SECRET", "x")
    monkeypatch.setenv("HORARIUM_API_KEY", "x")
    monkeypatch.setenv("HORARIUM_LEASE", "")
    loaded = config.load({"database_url": URL})
    assert loaded.warnings == ("HORARIUM_WEBHOOK_SECRET is not a setting and has no effect",)
    assert "lease" not in loaded.origins


def test_lists_paths_and_words_are_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORARIUM_ALLOW_PRIVATE_TARGETS", "10.0.0.0/8, fd00::/8")
    monkeypatch.setenv("HORARIUM_BASE_PATH", "ops/horarium/")
    monkeypatch.setenv("HORARIUM_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("HORARIUM_NODE_URL", "https://node-1.example:8443/")
    settings = config.load({"database_url": URL}).settings
    assert settings.allow_private_targets == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.base_path == "/ops/horarium"
    assert settings.log_level == "debug"
    assert settings.node_url == "https://node-1.example:8443"


@pytest.mark.parametrize(
    ("name", "value"), [("base_path", "/a b"), ("node_url", "node-1:80"), ("env", "Live!"), ("log_level", "loud")]
)
def test_what_is_refused(name: str, value: str) -> None:
    (told,) = faults(database_url=URL, **{name: value})
    assert told.startswith(f"{name}: ")


def test_every_setting_has_a_sentence_and_stands_in_the_reference() -> None:
    reference = Path(__file__).parent.parent / "docs" / "reference" / "configuration.md"
    text = reference.read_text(encoding="utf-8")
    for name, field in config.Settings.model_fields.items():
        assert field.description
        assert field.description.endswith(".")
        assert f"| `{name}` |" in text, f"{name} is missing in {reference.name}"
        assert field.description in text, f"the sentence of {name} differs in {reference.name}"


ONE, OTHER = "postgresql://u@h1,h2:5433/db?target_session_attrs=read-write", "postgres://u:p%2Cw@h3/db"


def test_a_comma_ends_an_address_only_where_the_next_one_begins() -> None:
    assert config.databases_in(ONE) == (("a", ONE),)
    assert config.databases_in(f"{ONE},{OTHER}") == (("a", ONE), ("b", OTHER))
    assert config.databases_in(f"main={ONE} , {OTHER},third-1={URL}") == (("main", ONE), ("b", OTHER), ("third-1", URL))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{ONE},{ONE}", "two databases with the same address"),
        (f"b={ONE},{OTHER}", "two databases with the same name"),
        (f"{ONE},postgresql://u@h:port/db", "database b: has a port"),
        (",".join(f"postgresql://h{number}/db" for number in range(33)), "names 33 databases; there can be 32"),
    ],
)
def test_a_wrong_list_of_databases_is_refused(text: str, fault: str) -> None:
    (said,) = faults(database_url=text)
    assert fault in said
    assert "u@h" not in said


def test_the_databases_may_be_a_list_in_the_file() -> None:
    write(f'database_url = ["{ONE}", "{OTHER}"]')
    settings = config.load().settings
    assert [each.name for each in settings.databases] == ["a", "b"]
    assert settings.home_url == ONE
