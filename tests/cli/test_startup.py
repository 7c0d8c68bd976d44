"""The command line starts fast: what is heavy is imported only by the commands that need it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

HEAVY = ["fastapi", "starlette", "pydantic", "asyncpg", "aiohttp", "rich", "uvloop", "uvicorn", "yaml", "structlog"]


def modules_after(statement: str) -> set[str]:
    program = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def run_command(*arguments: str) -> str:
    return (
        "from horarium.cli import main\n"
        f"try: main.cli({list(arguments)!r}, prog_name='horarium')\n"
        "except SystemExit: pass"
    )


def test_the_entry_point_imports_nothing_heavy() -> None:
    assert not modules_after("import horarium.cli.main") & {*HEAVY, "msgspec", "http.client"}


@pytest.mark.parametrize("arguments", [["--help"], ["jobs", "list", "--help"], ["dev", "--help"], ["version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not modules_after(run_command(*arguments)) & set(HEAVY)


def test_commands_of_a_client_need_nothing_of_the_server() -> None:
    loaded = modules_after(run_command("--url", "http://127.0.0.1:1", "jobs", "list"))
    assert not loaded & set(HEAVY)
    assert not any(name.startswith(("horarium.store", "horarium.services", "horarium.config")) for name in loaded)
    assert not modules_after(run_command("cron", "next", "0 2 * * *", "-o", "json")) & set(HEAVY)


def test_it_starts_in_well_under_a_third_of_a_second() -> None:
    """Counted in CPU time, the least of three, so that a busy machine does not decide."""

    def least(*command: str) -> float:
        return min(cpu_time(*command) for _ in range(3))

    assert least("-m", "horarium", "version") - least("-c", "pass") < 0.3


def cpu_time(*command: str) -> float:
    """Seconds of CPU that a Python program takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
