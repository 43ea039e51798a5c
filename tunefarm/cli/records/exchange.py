"""`tunefarm records`: records in and out of the store, and what is kept."""

from __future__ import annotations

import dataclasses
import gzip
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import click
from rich.table import Table

from tunefarm.cli.common import DB, FILE, JSON, CommandGroup, Timespan, Whole
from tunefarm.cli.tables import show_table
from tunefarm.settings import Settings
from tunefarm.version import __version__
from tuner.interchange import autotvm_records, jsonl, t4, tvm_records
from tuner.interchange.foreign import ImportOutcome, Kept, LeftOut
from tuner.interchange.transfer import MergeOutcome, Progress, Selection, copy, read, selected_runs, write
from tuner.kernels.files import run_file
from tuner.number_text import counted, duration, ranges
from tuner.records.errors import RecordError
from tuner.records.model import Run, RunState, Trial
from tuner.records.runs.stats import StoreStats
from tuner.records.store import RecordStore

_RUN = click.option("--run", "run_ids", type=int, multiple=True, help="Only this run; may be repeated.")
_WORKLOAD = click.option("--workload", default="", help="Only runs with this workload, by name or key.")
_STDIO = Path("-")

_EPILOG = """\b
Examples:
  tunefarm records stats
  tunefarm records export all.jsonl
  tunefarm records prune --older-than 90d
"""


@click.group(cls=CommandGroup, epilog=_EPILOG)
def records() -> None:
    """Move records between stores and tools, count them, and remove what is no longer wanted."""


# ---------------------------------------------------------------------------------------- out

_EXPORT_EPILOG = """\b
Examples:
  tunefarm records export all.jsonl.gz
  tunefarm records export --run 12 - | ssh lab tunefarm records import -
  tunefarm records export --format t4 --workload matmul:512,512,512:float32 matmul.json
\b
Formats:
  jsonl  everything, to be imported again (gzip when the name ends in .gz)
  t4     the auto-tuning results format that Kernel Tuner reads and writes
"""


@records.command("export", epilog=_EXPORT_EPILOG)
@click.argument("file", type=FILE)
@DB
@_RUN
@_WORKLOAD
@click.option("--format", "form", type=click.Choice(["jsonl", "t4"]), default="jsonl", show_default=True)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_obj
def export(
    settings: Settings, file: Path, db: str | None, run_ids: tuple[int, ...], workload: str, form: str, force: bool
) -> None:
    """Write records to FILE ("-": standard output)."""
    selection = Selection(frozenset(run_ids), workload)
    with RecordStore.open(db or settings.db) as store, _sink(file, force) as out:
        if form == "t4":
            count = t4.dump(_trials(store, selection), out)
        else:
            count = jsonl.dump(read(store, selection, written_by=f"tunefarm {__version__}"), out)
    click.echo(f"{counted(count, 'trial')} written to {'standard output' if file == _STDIO else file}", err=True)


def _trials(store: RecordStore, selection: Selection) -> Iterator[Trial]:
    for run in selected_runs(store, selection):
        yield from store.trials.all(run.id)


@contextmanager
def _sink(file: Path, force: bool) -> Iterator[BinaryIO]:
    """Where an export goes. A file appears under its name only when it is whole."""
    if file == _STDIO:
        yield sys.stdout.buffer
        return
    if file.exists() and not force:
        raise RecordError(f"{file} exists", hint="give another name, or --force to replace it")
    if not file.parent.is_dir():
        raise RecordError(f"the folder {file.parent} does not exist", hint="create it first")
    part = file.with_name(file.name + ".part")
    try:
        with part.open("wb") as raw:
            if file.suffix == ".gz":
                with gzip.open(raw, "wb") as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield raw
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# ----------------------------------------------------------------------------------------- in

_IMPORT_EPILOG = """\b
Examples:
  tunefarm records import all.jsonl.gz
  tunefarm records import --db postgresql://tune@db/tunefarm lab.jsonl
  tunefarm records import tvm_work_dir/
  tunefarm records import --templates mine.py autotvm.log

The file is checked from its first line to its last before anything of it is stored. Runs the store has already are
not stored twice, so an import that was interrupted is simply done again.

A work folder of Apache TVM's MetaSchedule gives its workloads and schedules; what does not carry over is said for each
record. Its times are of TVM's code: they are kept, but no build is given such a config before it was measured here.

So does a log of autotvm, whose templates the file given with --templates has to register under their names there.
"""


@records.command("import", epilog=_IMPORT_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@DB
@click.option("--templates", type=FILE, help="A Python file that registers the templates of an autotvm log.")
@click.option("--check", "only_check", is_flag=True, help="Check FILE and store nothing.")
@JSON
@click.pass_obj
def import_(
    settings: Settings, file: Path, db: str | None, templates: Path | None, only_check: bool, as_json: bool
) -> None:
    """Put the records of FILE ("-": standard input), made by `tunefarm records export`, into the store.

    FILE may also be a work folder of Apache TVM's MetaSchedule, or a log of autotvm.
    """
    if tvm_records.is_database(file):
        _import_tvm(db or settings.db, file, tvm_records, only_check, as_json)
        return
    if autotvm_records.is_log(file):
        if templates is not None:
            run_file(templates)
        _import_tvm(db or settings.db, file, autotvm_records, only_check, as_json)
        return
    with _source(file) as path:
        counts = Counter(type(entry).__name__ for entry in jsonl.load(path))
        if only_check:
            click.echo(f"{file}: {_runs_and_trials(counts['RunEntry'], counts['TrialEntry'])}, all in order")
            return
        with RecordStore.open(db or settings.db, create=True) as store:
            merged = write(store, jsonl.load(path), _progress(counts["TrialEntry"]))
    _report(merged, as_json)


class _Carried(Protocol):
    """A record that carried over."""

    @property
    def kept(self) -> Kept: ...


class _Reader(Protocol):
    """A module that reads one kind of log."""

    def read(self, path: Path) -> Iterator[_Carried | LeftOut]: ...

    def bring(self, store: RecordStore, path: Path) -> ImportOutcome: ...


def _import_tvm(address: str, path: Path, reader: _Reader, only_check: bool, as_json: bool) -> None:
    if only_check:
        found = list(reader.read(path))
        left = [each for each in found if isinstance(each, LeftOut)]
        outcome = ImportOutcome(kept=[each.kept for each in found if not isinstance(each, LeftOut)], left=left)
        click.echo(f"{path}: {len(outcome.kept)} of {counted(len(found), 'record')} carry over", err=as_json)
    else:
        with RecordStore.open(address, create=True) as store:
            outcome = reader.bring(store, path)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(outcome), default=sorted))
        return
    if not only_check:
        there = f"of {counted(len(outcome.workloads), 'workload')}, {outcome.known} known already"
        click.echo(f"{counted(outcome.trials, 'new trial')} {there}")
    for without in dict.fromkeys(each.without for each in outcome.kept):
        lines = spans([each.line for each in outcome.kept if each.without == without])
        click.echo(f"{lines} kept without {', '.join(without)}", err=True)
    for each in outcome.left:
        click.echo(f"line {each.line} left out: {each.reason}", err=True)


def spans(lines: Sequence[int]) -> str:
    """Rising numbers of lines in words: "line 3", "lines 1-4, 7"."""
    return f"line{'s' if len(lines) > 1 else ''} {ranges(lines)}"


@contextmanager
def _source(file: Path) -> Iterator[Path]:
    """Open the file. Standard input is kept in a copy, because it is read twice."""
    if file != _STDIO:
        if file.is_dir():
            hint = "give a file, or a work folder of Apache TVM's MetaSchedule, which has a database_workload.json"
            raise RecordError(f"the folder {file} holds no records", hint=hint)
        if not file.is_file():
            raise RecordError(f"there is no file {file}", hint="`tunefarm records export` writes files of records")
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="tunefarm-import-") as kept:
        while chunk := sys.stdin.buffer.read(1 << 20):
            kept.write(chunk)
        kept.flush()
        yield Path(kept.name)


_MERGE_EPILOG = """\b
Examples:
  tunefarm records merge laptop.db --db sqlite:///lab.db
  tunefarm records merge sqlite:///old.db --db postgresql://tune@db/tunefarm
"""


@records.command(epilog=_MERGE_EPILOG)
@click.argument("source")
@DB
@_RUN
@_WORKLOAD
@JSON
@click.pass_obj
def merge(
    settings: Settings, source: str, db: str | None, run_ids: tuple[int, ...], workload: str, as_json: bool
) -> None:
    """Put the records of the store SOURCE into this one.

    SOURCE stays as it is; runs both have are kept once. Runs, families and what is known of models are merged, not
    releases, benchmarks, tokens, quotas, files of models, cost models or device events. The command says where SOURCE
    has some.
    """
    with RecordStore.open(source) as theirs, RecordStore.open(db or settings.db, create=True) as ours:
        if theirs.address == ours.address:
            raise RecordError(f"{theirs.address} is the store to merge into", hint="give the other store with --db")
        merged = copy(theirs, ours, Selection(frozenset(run_ids), workload), _progress())
        left = _left_behind(theirs)
    _report(merged, as_json)
    if left:
        listed = " and ".join(filter(None, [", ".join(left[:-1]), left[-1]]))
        click.echo(
            f"not merged: {listed} of {theirs.address}. "
            "`tunefarm release export` and `import` move a release; `tunefarm db move` copies all to an empty store",
            err=True,
        )


def _left_behind(store: RecordStore) -> list[str]:
    """Return what a store has that no merge takes along."""
    there = {
        "benchmark runs": store.benches.newest(limit=1),
        "releases": store.releases.newest(limit=1),
        "tokens": store.tokens.all(limit=1),
        "quotas": store.quotas.all(limit=1),
        "files of models": store.models.keeps_files(),
        "cost models": store.cost_models.newest(limit=1),
        "device events": store.devices.newest_events(limit=1),
    }
    return [name for name, found in there.items() if found]


def _progress(total: int | None = None) -> Progress:
    """Shows how many trials are in, on a terminal.
    Without a `total` the line is written over by what comes next."""
    shown = sys.stderr.isatty()

    def tell(done: int) -> None:
        if shown and total is None:
            click.echo(f"{counted(done, 'trial')}\r", err=True, nl=False)
        elif shown:
            click.echo(f"\r{done} of {counted(total or 0, 'trial')}", err=True, nl=done >= (total or 0))

    return tell


def _runs_and_trials(runs: int, trials: int) -> str:
    return f"{counted(runs, 'run')} and {counted(trials, 'trial')}"


def _report(merged: MergeOutcome, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(merged)))
        return
    click.echo(f"{counted(merged.runs, 'new run')}, {counted(merged.trials, 'new trial')}")
    if merged.models:
        times = counted(merged.model_times, "new time")
        click.echo(f"{counted(merged.models, 'version')} of models, {times} of them")
    if merged.families:
        click.echo(f"{counted(merged.families, 'function')} tuned at many sizes")
    if merged.known_runs:
        click.echo(f"there already: {_runs_and_trials(merged.known_runs, merged.known_trials)}")
    if merged.diverged:
        runs = ", ".join(map(str, merged.diverged))
        click.echo(
            f"run {runs} went on in both places: this store's trials are kept, {merged.left_out} others left out"
        )


# -------------------------------------------------------------------------------------- stats


@records.command(epilog="\b\nExamples:\n  tunefarm records stats\n  tunefarm records stats --json | jq .trials")
@DB
@click.option("--limit", type=Whole(1), default=20, show_default=True, help="How many workloads to list.")
@JSON
@click.pass_obj
def stats(settings: Settings, db: str | None, limit: int, as_json: bool) -> None:
    """Say what is in the store."""
    with RecordStore.open(db or settings.db) as store:
        address, found = store.address, store.stats(limit)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found), default=lambda when: when.isoformat()))
        return
    _print_stats(address, found)


def _print_stats(address: str, found: StoreStats) -> None:
    size = f", {found.size / 1e6:.1f} MB" if found.size is not None else ""
    click.echo(f"{address}{size}")
    if not found.runs:
        click.echo("no runs yet; start one: tunefarm tune matmul:512,512,512:float32")
        return
    states = ", ".join(f"{count} {RunState(state).words}" for state, count in found.runs_by_state.items())
    days = f"from {found.first_run:%Y-%m-%d} to {found.last_change:%Y-%m-%d} (UTC)"
    click.echo(f"{counted(found.runs, 'run')} ({states}), {days}")
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.failures.items())
    click.echo(f"{counted(found.trials, 'search trial')}, {found.failed} failed" + (f" ({kinds})" if kinds else ""))
    there = {"workload": found.workloads, "device": found.devices, "best config": found.best_configs}
    click.echo(", ".join(counted(number, noun) for noun, number in there.items()))
    table = Table("workload", "target", "runs", "trials", "failed", "best")
    for row in found.by_workload:
        told = (str(row.runs), str(row.trials), str(row.failed), duration(row.best_cost))
        table.add_row(row.workload, row.target, *told)
    show_table(table, "workload", "target")


# -------------------------------------------------------------------------------------- prune

_PRUNE_EPILOG = """\b
Examples:
  tunefarm records prune --older-than 90d --dry-run
  tunefarm records prune --state failed --yes
  tunefarm records prune --run 3 --run 4 --compact

A run that holds a best config is kept, and so is one under way.
"""


@records.command(epilog=_PRUNE_EPILOG)
@DB
@_RUN
@_WORKLOAD
@click.option("--older-than", type=Timespan(), help="Only runs that ended longer ago than this, such as 90d.")
@click.option(
    "--state", type=click.Choice([str(each) for each in RunState if each.ended]), help="Only runs in this state."
)
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--compact", is_flag=True, help="Give the space back to the disk (SQLite).")
@click.pass_obj
def prune(
    settings: Settings, db: str | None, run_ids: tuple[int, ...], workload: str, older_than: float | None,
    state: str | None, dry_run: bool, yes: bool, compact: bool,
) -> None:  # fmt: skip
    """Remove whole runs from the store, with the candidates only they tried."""
    if not (run_ids or workload or older_than is not None or state):
        raise click.UsageError("say which runs: --run, --workload, --older-than or --state")
    cutoff = None if older_than is None else datetime.now(UTC) - timedelta(seconds=older_than)
    with RecordStore.open(db or settings.db) as store:
        chosen = [
            run
            for run in selected_runs(store, Selection(frozenset(run_ids), workload))
            if state in (None, str(run.state))
        ]
        old = [run for run in chosen if cutoff is None or (run.finished_at or run.updated_at) < cutoff]
        gone = [run for run in old if not _kept(store, run)]
        searched = counted(sum(run.trials for run in gone), "search trial")
        click.echo(f"{counted(len(gone), 'run')} with {searched} to remove")
        if dry_run or not gone:
            return
        if not yes:
            click.confirm("remove them for good?", abort=True)
        removed = sum(store.runs.remove(run.id) for run in gone)
        if compact:
            store.compact()
    click.echo(f"removed {_runs_and_trials(len(gone), removed)}")


def _kept(store: RecordStore, run: Run) -> bool:
    """Whether the run must stay; says why."""
    why = store.runs.removable(run.id)
    if why:
        click.echo(why)
    return bool(why)
