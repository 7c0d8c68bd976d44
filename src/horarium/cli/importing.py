"""`horarium import`: what another scheduler has, as a manifest and a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from horarium.cli import applying, local_zone, options, output, session

_SYSTEM_FILES = re.compile(r"/etc/(crontab|cron\.d/[^/]+)$")


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    text: str
    system: bool


@click.group("import")
def import_() -> None:
    """Turn what another scheduler has into a manifest, with a report of what cannot be kept."""


@import_.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--system/--user", default=None, help="With a user column or without.  [default: by the file's place]")
@click.option("--tz", "timezone", metavar="ZONE", help="Zone in which cron reads the times.  [default: this machine's]")
@click.option("--name", help="Name of the manifest.  [default: crontab-FILE]")
@click.option("--prefix", help="What job names begin with.  [default: the file's name and a dot]")
@click.option("--queue", help="Queue of the jobs: one that a worker with --commands serves.")
@click.option("--output", "target", type=click.Path(path_type=Path, dir_okay=False), help="Write the YAML here.")
@click.option("--apply", "apply_", is_flag=True, help="Create or change the jobs on the server.")
@options.dry_run("With --apply: say what would change, and exit 2 if anything would.")
@options.connection()
@options.pass_invocation
@click.pass_context
def crontab(
    ctx: click.Context,
    invocation: options.Invocation,
    file: Path,
    system: bool | None,
    timezone: str | None,
    name: str | None,
    prefix: str | None,
    queue: str | None,
    target: Path | None,
    apply_: bool,
    dry_run: bool,
) -> None:
    """Import a crontab: YAML on stdout (or --output), the report on stderr. Exit 2 if a line was refused.

    A command line goes through the shell as under cron, and needs a worker started with --commands.

    \b
    crontab -l | horarium import crontab - --name deploy --tz Europe/Berlin > deploy.yaml
    horarium import crontab /etc/cron.d/sysstat --output sysstat.yaml
    horarium import crontab /etc/crontab --apply --dry-run
    """
    from horarium.manifests import writer
    from horarium.manifests.importers import crontab as importer
    from horarium.manifests.importers import report

    source = _read(file, system, name)
    zone = _zone(invocation, timezone)
    wanted = importer.Wanted(source.name, zone, system=source.system, queue=queue, prefix=prefix)
    found = importer.import_crontab(source.text, wanted, datetime.now(UTC))
    _report(invocation, file, found)
    heading = [f"Imported from the crontab {file.name} by `horarium import crontab`; times are read in {zone}."]
    if target:
        target.write_text(writer.write(found.manifest, heading), encoding="utf-8")
    elif not apply_:
        click.echo(writer.write(found.manifest, heading), nl=False)
    pending = applying.apply(invocation, session.open_client(invocation), found.manifest, dry_run) if apply_ else 0
    if found.count(report.Kind.REFUSED) or (dry_run and pending):
        ctx.exit(2)


def _read(file: Path, system: bool | None, name: str | None) -> _Source:
    try:
        with click.open_file(str(file), "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise click.FileError(str(file), error.strerror) from None
    text = content.decode("utf-8", "surrogateescape")
    by_place = _SYSTEM_FILES.search(str(file.absolute())) is not None
    given = name or ("stdin" if str(file) == "-" else file.stem if file.suffix in {".txt", ".cron"} else file.name)
    return _Source(given.removeprefix("crontab-"), text, by_place if system is None else system)


def _zone(invocation: options.Invocation, given: str | None) -> str:
    from horarium.domain import zones

    if given:
        zones.zone(given)
        return given
    local = local_zone.name()
    zone = local if local in zones.known_names() else "UTC"
    output.say(invocation, f"Times are read in {zone}, the zone of this machine; --tz names another.")
    return zone or "UTC"


def _report(invocation: options.Invocation, file: Path, found: Any) -> None:
    for finding in found.findings:
        place = f"line {finding.line}" if finding.line else "file"
        output.say(invocation, f"{place:<9} {finding.kind:<9} {finding.text}")
    counts = ", ".join(_counted(found.findings))
    output.say(invocation, f"{file.name}: {counts or 'nothing to import'}")


def _counted(findings: Sequence[Any]) -> list[str]:
    kinds = [str(finding.kind) for finding in findings]
    return [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
