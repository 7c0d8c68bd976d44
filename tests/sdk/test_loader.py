"""Finding the application that a command line names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from horarium import errors
from horarium.sdk import loader
from tests.sdk import cron_app


def test_by_module_and_attribute() -> None:
    assert loader.load("tests.sdk.cron_app:h") is cron_app.h
    assert cron_app.h.app in ("tests.sdk.cron_app", "cron_app")
    assert loader.load("tests.sdk.cron_app:other").app == "other"
    assert loader.load("tests.sdk.process_app").handlers


@pytest.mark.parametrize(
    ("app", "text"),
    [
        ("tests/sdk/cron_app.py:h", "write module:attribute"),
        (":h", "write module:attribute"),
        ("tests.sdk.nowhere:h", r"there is no module 'tests\.sdk\.nowhere'"),
        ("nowhere.at.all:h", "there is no module 'nowhere'"),
        ("tests.sdk.cron_app:x", r"did you mean tests\.sdk\.cron_app:h or tests\.sdk\.cron_app:other\?"),
        ("tests.sdk.cron_app:run", "is not a Horarium object"),
        ("tests.sdk.cron_app", r"several Horarium objects; write tests\.sdk\.cron_app:h or"),
        ("tests.sdk.peer:h", r"has no Horarium object; it needs a line like h = Horarium\(\)"),
    ],
)
def test_what_is_wrong_is_said(app: str, text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=text):
        loader.load(app)


def test_a_module_that_the_application_misses_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_an_app.py").write_text("import not_installed_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_at_all"):
        loader.load("half_an_app:h")


def test_the_working_directory_is_searched_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/elsewhere"])
    monkeypatch.chdir(tmp_path)
    loader.search_working_directory()
    loader.search_working_directory()
    assert sys.path == [str(tmp_path), "/elsewhere"]
