"""`tunefarm release`: named, frozen sets of configs that builds pin."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from compiler.errors import TunefarmError
from rpc_server.machine.user_name import user_name
from tunefarm.cli.common import DB, JSON, OBJECTIVE, CommandGroup
from tunefarm.cli.tables import show_table
from tunefarm.settings import Settings
from tuner.goals import Goal
from tuner.number_text import counted, duration
from tuner.records.farm import release_files
from tuner.records.farm.model_farm import Release, ReleaseEntry
from tuner.records.store import RecordStore

_HINT = "`tunefarm release export` writes a release to a file"


@click.group(
    cls=CommandGroup, epilog="\b\nExample:\n  tunefarm release create 2026.11 && tunefarm release approve 2026.11"
)
def release() -> None:
    """Freeze best configs under a name, compare, approve and move them."""


@release.command(epilog="\b\nExample:\n  tunefarm release create 2026.11 --note 'after the kernel upgrade'")
@click.argument("name")
@click.option("--workload", "workloads", multiple=True, help="Only this workload, by name or key; may be repeated.")
@click.option("--target", help="Only configs for this target.")
@click.option("--device-class", help="Only configs for this device class.")
@OBJECTIVE
@click.option("--note", default="", help="What the release is for.")
@DB
@click.pass_obj
def create(
    settings: Settings, name: str, workloads: tuple[str, ...], target: str | None, device_class: str | None,
    objective: str, note: str, db: str | None,
) -> None:  # fmt: skip
    """Freeze the best configs there are now as the release NAME. Builds use it once it is approved."""
    with RecordStore.open(db or settings.db) as store:
        made = store.releases.create(
            name,
            note=note,
            created_by=user_name(),
            workloads=workloads,
            target=target,
            device_class=device_class,
            goal=Goal(objective),
        )
    configs = counted(made.entry_count, "config")
    click.echo(f"release {made.name}: {configs}, digest {made.digest[:12]}, not approved yet")


@release.command("list", epilog="\b\nExample:\n  tunefarm release list")
@DB
@JSON
@click.pass_obj
def list_(settings: Settings, db: str | None, as_json: bool) -> None:
    """List releases, newest first."""
    with RecordStore.open(db or settings.db) as store:
        found = store.releases.newest(limit=500)
    if as_json:
        click.echo(json.dumps([_as_json(r) for r in found]))
        return
    from rich.table import Table

    table = Table("name", "configs", "digest", "made", "by", "approved", "note", box=None)
    for r in found:
        approved = f"{r.approved_at:%Y-%m-%d} {r.approved_by}" if r.approved_at else "no"
        made = f"{r.created_at:%Y-%m-%d %H:%M}"
        table.add_row(r.name, str(r.entry_count), r.digest[:12], made, r.created_by, approved, r.note)
    show_table(table, "note")


@release.command(epilog="\b\nExample:\n  tunefarm release show 2026.11")
@click.argument("name")
@DB
@JSON
@click.pass_obj
def show(settings: Settings, name: str, db: str | None, as_json: bool) -> None:
    """Show the configs of the release NAME."""
    with RecordStore.open(db or settings.db) as store:
        found, entries = store.releases.get(name), store.releases.entries(name)
    if as_json:
        click.echo(release_files.dump(found, entries), nl=False)
        return
    for entry in entries:
        click.echo(_line(entry))


@release.command(epilog="\b\nExample:\n  tunefarm release diff 2026.10 2026.11")
@click.argument("old")
@click.argument("new")
@DB
@JSON
@click.pass_obj
def diff(settings: Settings, old: str, new: str, db: str | None, as_json: bool) -> None:
    """Show what changed from the release OLD to the release NEW."""
    with RecordStore.open(db or settings.db) as store:
        found = store.releases.diff(old, new)
    if as_json:
        sides = {"added": found.added, "removed": found.removed}
        changed = [{"old": _entry_json(a), "new": _entry_json(b)} for a, b in found.changed]
        lists = {name: [_entry_json(e) for e in entries] for name, entries in sides.items()}
        click.echo(json.dumps({**lists, "changed": changed, "same": found.same}))
        return
    for entry in found.added:
        click.echo(f"+ {_line(entry)}")
    for entry in found.removed:
        click.echo(f"- {_line(entry)}")
    for before, after in found.changed:
        speed = f"{before.cost / after.cost:.2f} times as fast" if after.cost else ""
        click.echo(f"~ {_line(after)}, was {before.digest[:12]}; {speed}")
    click.echo(f"{found.same} the same")


@release.command(epilog="\b\nExample:\n  tunefarm release approve 2026.11")
@click.argument("name")
@DB
@click.pass_obj
def approve(settings: Settings, name: str, db: str | None) -> None:
    """Let builds use the release NAME, which from then on stays as it is."""
    with RecordStore.open(db or settings.db) as store:
        found = store.releases.approve(name, user_name())
    click.echo(f"release {found.name} was approved by {found.approved_by}")


@release.command(epilog="\b\nExample:\n  tunefarm release export 2026.11 2026.11.json")
@click.argument("name")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@DB
@click.pass_obj
def export(settings: Settings, name: str, file: Path, db: str | None) -> None:
    """Write the release NAME to FILE (- for stdout), with a checksum."""
    with RecordStore.open(db or settings.db) as store:
        text = release_files.dump(store.releases.get(name), store.releases.entries(name))
    if str(file) == "-":
        click.echo(text, nl=False)
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise TunefarmError(f"cannot write {file}: {error.strerror}") from None
    click.echo(f"release {name} written to {file}")


@release.command("import", epilog="\b\nExample:\n  tunefarm release import 2026.11.json")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@DB
@click.pass_obj
def import_(settings: Settings, file: Path, db: str | None) -> None:
    """Take in a release that another store exported.
    A changed file is refused; builds use it once it is approved."""
    read = _read(file)
    with RecordStore.open(db or settings.db) as store:
        made = store.releases.take_in(read)
    configs = counted(made.entry_count, "config")
    click.echo(f"release {made.name}: {configs}, digest {made.digest[:12]}, not approved yet")


@release.command(epilog="\b\nExample:\n  tunefarm release verify 2026.11.json")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--db", help="Record store: also compare with the release of that name there.")
def verify(file: Path, db: str | None) -> None:
    """Say whether FILE is a whole release whose configs are those of its digest.
    Ends with status 1 when it is not."""
    read = _read(file)
    if db is not None:
        with RecordStore.open(db) as store:
            held = store.releases.get(read.name)
        if held.digest != read.digest:
            raise TunefarmError(
                f"release {read.name} of the store has digest {held.digest[:12]}, the file {read.digest[:12]}",
                hint="one of them was made anew under the same name; `tunefarm release list` says when",
            )
    click.echo(f"release {read.name}: {counted(len(read.entries), 'config')}, digest {read.digest[:12]}, intact")


def _read(file: Path) -> release_files.ReleaseFile:
    """Raise TunefarmError for a file that cannot be read, is no release, or was changed."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise TunefarmError(f"cannot read {file}: {error.strerror}", hint=_HINT) from None
    except UnicodeDecodeError:
        raise TunefarmError(f"{file} is not a text file, so it is no release", hint=_HINT) from None
    try:
        return release_files.load(text)
    except TunefarmError as error:
        raise TunefarmError(f"{file}: {error.message}", hint=error.hint or _HINT) from None


def _line(entry: ReleaseEntry) -> str:
    return f"{entry.workload_name} on {entry.device_class}: {entry.digest[:12]}, {duration(entry.cost)}"


def _entry_json(entry: ReleaseEntry) -> dict[str, object]:
    names = ("workload_key", "workload_name", "target", "device_class", "toolchain", "digest")
    return {**{name: getattr(entry, name) for name in names}, "cost_s": entry.cost}


def _as_json(release: Release) -> dict[str, object]:
    return {
        "name": release.name,
        "note": release.note,
        "digest": release.digest,
        "entries": release.entry_count,
        "created_by": release.created_by,
        "created_at": release.created_at.isoformat(),
        "approved_by": release.approved_by,
        "approved_at": release.approved_at.isoformat() if release.approved_at else None,
    }
