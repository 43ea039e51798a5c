"""`tunefarm bench`: the fleet's own speed over time."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from compiler import hooks
from rpc_server.machine.children import PYTHON, environment
from rpc_server.machine.user_name import user_name
from rpc_server.wire.keys import KeyRing
from tunefarm.cli.common import DB, FILE, CommandGroup, Number, RegressionError, Whole, address
from tunefarm.cli.tables import show_table
from tunefarm.settings import Settings
from tuner.bench.changes import ChangeKind, find_steps
from tuner.bench.devices import BenchDevice, direct_devices, local_device, tracked_devices
from tuner.bench.history import lines_of
from tuner.bench.kernels import KernelBuilds
from tuner.bench.report import ReportLine, as_json, html, markdown, send_alert, summary, title
from tuner.bench.run import BenchMeasured, BenchOptions, Ended, Event, Started, run_bench
from tuner.bench.series import model_of
from tuner.bench.suites import SUITES, Suite, find_suite
from tuner.number_text import counted, duration
from tuner.records.db.passwords import shown_command
from tuner.records.farm.model_farm import BenchRun, NewBenchRun
from tuner.records.model import RunState
from tuner.records.store import RecordStore
from tuner.toolchain import toolchain
from tuner.webhook import webhook_address

_EPILOG = """\b
Examples:
  tunefarm bench suites
  tunefarm bench run cpu-quick
  tunefarm bench run gemm --devices 'arch=znver3 cores>=8' --webhook /etc/tunefarm/hook
  tunefarm bench history matmul:256,256,256:float32 --device rack1-01/0
  tunefarm bench report 12 --out report.html
"""
_RUN_EPILOG = """\b
Examples:
  tunefarm bench run cpu-quick
  tunefarm bench run gemm --devices '*' --tracker farm:9190
  tunefarm bench run ours.toml --device 127.0.0.1:9091 --rounds 5 --json
\b
Exit status: 0 nothing slower, 1 an error, 2 wrong usage, 5 a kernel became slower and measuring it again
bore that out.
"""


def _example(words: str) -> str:
    return f"\b\nExample:\n  tunefarm bench {words}\n"


_JSON = click.option("--json", "as_json_", is_flag=True, help="Print JSON.")


@click.group(cls=CommandGroup, epilog=_EPILOG)
def bench() -> None:
    """Benchmark devices with suites of kernels and models, and say when a kernel became slower.
    The history is kept."""


@bench.command(epilog=_example("suites --json"))
@_JSON
def suites(as_json_: bool) -> None:
    """List the built-in suites."""
    if as_json_:
        click.echo(json.dumps([suite.to_json() | {"summary": suite.summary} for suite in SUITES.values()]))
        return
    table = Table("suite", "kernels", "config", "what it is")
    for suite in SUITES.values():
        table.add_row(suite.name, str(len(suite.kernels)), suite.config, suite.summary)
    show_table(table, "what it is")


# --- run -----------------------------------------------------------------------------------------------------


@bench.command(epilog=_RUN_EPILOG)
@click.argument("suite")
@click.option("--devices", metavar="EXPR", help="Every device of the tracker that matches, for example 'cpu cores>=8'.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting]")
@click.option("--device", "addresses", multiple=True, metavar="HOST:PORT", help="This server. May be repeated.")
@click.option("--rounds", type=Whole(1, 100), default=3, show_default=True, help="Passes over the kernels.")
@click.option("--repeat", type=Whole(1, 1000), default=3, show_default=True, help="Samples a pass.")
@click.option("--wait", type=Number(0), default=600.0, show_default=True, help="Seconds to wait for each.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the order of the kernels.")
@click.option("--report", type=FILE, help="Write a report: .html or .md.")
@click.option("--webhook", metavar="FILE", help="POST confirmed changes as JSON to the address in this file.")
@click.option("--retune", type=Whole(1), metavar="TRIALS", help="Tune tuned kernels that became slower again.")
@DB
@_JSON
@click.pass_obj
def run(settings: Settings, /, suite: str, addresses: tuple[str, ...], as_json_: bool, **given: Any) -> None:
    """Run SUITE on devices of the tracker, servers, or this machine.
    SUITE is a name, or a TOML file. Devices are those of the tracker that match --devices, the servers given with
    --device, or this machine."""
    found = find_suite(suite)
    hooks.name_answer(hooks.SCHEDULES, "tuner.faces.kernel_schedules:KERNEL_SCHEDULES")
    _check_report(given["report"])
    _check_webhook(given["webhook"])
    devices = _devices(settings, given["devices"], given["tracker"], addresses)
    options = BenchOptions(rounds=given["rounds"], repeat=given["repeat"], wait_s=given["wait"], seed=given["seed"])
    with RecordStore.open(given["db"] or settings.db, create=True) as store:
        record = store.benches.start(_new_run(found, given["devices"] or ", ".join(s.name for s in devices), options))
        problems, flags = _follow(store, found, devices, options, record, quiet=as_json_)
        record = store.benches.get(record.id)
        lines = lines_of(store, record)
    if given["report"]:
        _write(given["report"], record, lines)
    changed = [entry for entry in lines if entry.change is not None]
    if as_json_:
        click.echo(json.dumps(_run_json(record, lines, problems)))
    else:
        _print(record, lines)
    if given["webhook"] and changed:
        send_alert(given["webhook"], record, changed)
    slower = [entry for entry in changed if entry.change is ChangeKind.SLOWER]
    files = {path.name: str(path) for path in found.models}
    if given["retune"]:
        _retune(slower, flags, given, files)
    if slower:
        own = [entry.result.kernel for entry in slower if model_of(entry.result.kernel) is None]
        names = " ".join(files.get(name, name) for name in dict.fromkeys(own))
        what = f"{len(slower)} of {counted(len(lines), 'result')} became slower"
        raise RegressionError(what, hint=f"tune them again: tunefarm tune {names}")
    apart = [entry for entry in lines if entry.is_slow_for_its_class and model_of(entry.result.kernel) is None]
    if apart:
        raise RegressionError(
            f"{len(apart)} of {len(lines)} results are slower than others of their device class",
            hint="compare the devices' settings, cooling and neighbours: tunefarm doctor",
        )
    if problems and not lines:
        raise click.ClickException("no device could be benchmarked")


def _devices(
    settings: Settings, expression: str | None, tracker: str | None, addresses: Sequence[str]
) -> list[BenchDevice]:
    keys = KeyRing(settings.keys_folder)
    if addresses:
        if expression or tracker:
            raise click.UsageError("--device names servers, --devices and --tracker ask a tracker: give one of them")
        return direct_devices([address(text, "--device") for text in addresses], keys)
    if expression or tracker:
        host, port = address(tracker or settings.tracker, "--tracker")
        return tracked_devices(host, port, expression or "*", keys)
    return [local_device()]


def _new_run(suite: Suite, devices: str, options: BenchOptions) -> NewBenchRun:
    return NewBenchRun(
        suite=suite.name,
        spec=suite.to_json(),
        devices=devices,
        toolchain=toolchain(),
        options={"rounds": options.rounds, "repeat": options.repeat, "seed": options.seed},
        command=shown_command(["tunefarm", *sys.argv[1:]]),
        host=socket.gethostname(),
        user=user_name(),
    )


def _follow(
    store: RecordStore,
    suite: Suite,
    devices: Sequence[BenchDevice],
    options: BenchOptions,
    record: BenchRun,
    quiet: bool,
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Run everything and show progress. Returns the devices' problems, with the flags that name each."""
    problems = []
    by_device = {device.name: device.flags for device in devices}
    flags = {}
    builds = KernelBuilds(suite, store)
    try:
        for event in run_bench(store, builds, devices, options, record.id):
            if isinstance(event, Ended) and event.problem:
                problems.append(f"{event.device}: {event.problem}")
            if isinstance(event, Started):
                flags[event.device] = by_device[event.asked]
            if not quiet and (text := _text(event)):
                click.echo(text, err=True)
    except KeyboardInterrupt:
        store.benches.end(record.id, RunState.INTERRUPTED, "stopped by the user (Ctrl-C)")
        raise
    except BaseException as error:
        store.benches.end(record.id, RunState.FAILED, f"{type(error).__name__}: {error}")
        raise
    finally:
        builds.models.close()
    state = RunState.FAILED if len(problems) == len(devices) else RunState.FINISHED
    store.benches.end(record.id, state, "\n".join(problems))
    return problems, flags


def _retune(
    slower: Sequence[ReportLine], flags: dict[str, tuple[str, ...]], given: dict[str, Any], files: Mapping[str, str]
) -> None:
    """Start a tuning run for each device on which tuned kernels or models became slower, in turn."""
    by_device: dict[str, list[str]] = {}
    for entry in slower:
        name = entry.result.kernel
        if entry.result.config_digest and model_of(name) is None:
            by_device.setdefault(entry.result.device, []).append(files.get(name, name))
    for device, kernels in by_device.items():
        words = ["tune", *kernels, "--trials", str(given["retune"]), *flags[device]]
        words += ["--db", given["db"]] if given["db"] else []
        click.echo(f"{device}: {shown_command(['tunefarm', *words])}", err=True)
        done = subprocess.run(
            [*PYTHON, "-m", "tunefarm", *words, "--quiet"], stdout=sys.stderr, check=False, env=environment()
        )
        if done.returncode:
            click.echo(f"{device}: tuning ended with status {done.returncode}", err=True)


def _text(event: Event) -> str:
    match event:
        case Started():
            return f"{event.device}: {counted(event.kernels, 'kernel')} in {counted(event.rounds, 'round')}"
        case BenchMeasured(cost=cost) if cost is not None:
            what = f"round {event.round}" if event.round else "again"
            return f"{event.device}: {what:8} {event.kernel:44} {duration(cost)}"
        case Ended() if event.problem:
            return f"{event.device}: {event.problem}"
    return ""


# --- what was found ------------------------------------------------------------------------------------------


def _run_json(record: BenchRun, lines: Sequence[ReportLine], problems: Sequence[str]) -> dict[str, Any]:
    return {
        "run": record.id,
        "suite": record.suite,
        "state": record.state,
        "started_at": record.started_at.isoformat(),
        "problems": list(problems),
        "results": [as_json(entry) for entry in lines],
    }


def _print(record: BenchRun, lines: Sequence[ReportLine]) -> None:
    table = Table("device", "kernel", "time", "usual", "speed", "", title=title(record))
    for entry in lines:
        result, judgement = entry.result, entry.judgement
        usual = duration(judgement.baseline) if judgement is not None and judgement.count else "–"
        style = {ChangeKind.SLOWER: "red", ChangeKind.FASTER: "green"}.get(entry.change) if entry.change else None
        time = duration(result.cost)
        table.add_row(result.device, result.kernel, time, usual, entry.speed, entry.verdict, style=style)
    show_table(table, "device", "kernel")
    click.echo(summary(record, lines))


def _check_report(path: Path | None) -> None:
    if path is not None and path.suffix not in (".html", ".md"):
        raise click.BadParameter(f"{path} ends in neither .html nor .md", param_hint="--report")


def _check_webhook(file: str | None) -> None:
    """Refuse options that could not be reported in the end.
    An address here would be seen in the machine's list of processes."""
    if file is not None and "://" in file:
        raise click.BadParameter("write the address to a file and give that", param_hint="--webhook")
    if file is not None:
        webhook_address(file)


def _write(path: Path, record: BenchRun, lines: Sequence[ReportLine]) -> None:
    text = html(record, lines) if path.suffix == ".html" else markdown(record, lines)
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


@bench.command("list", epilog=_example("list --limit 5"))
@click.option("--limit", type=Whole(1, 1000), default=20, show_default=True, help="How many, newest first.")
@DB
@_JSON
@click.pass_obj
def list_(settings: Settings, limit: int, db: str | None, as_json_: bool) -> None:
    """List benchmark runs, newest first."""
    with RecordStore.open(db or settings.db) as store:
        found = store.benches.newest(limit)
    if as_json_:
        click.echo(json.dumps([_run_json(record, [], []) | {"count": record.results} for record in found]))
        return
    table = Table("run", "suite", "state", "started (UTC)", "results", "failed", "devices")
    for record in found:
        started = f"{record.started_at:%Y-%m-%d %H:%M}"
        table.add_row(
            str(record.id), record.suite, record.state, started, str(record.results), str(record.failed), record.devices
        )
    show_table(table, "devices")


@bench.command(epilog=_example("report 12 --out report.html"))
@click.argument("run_id", type=int, metavar="RUN")
@click.option("--out", type=FILE, help="A file ending in .html or .md; without it Markdown is printed.")
@DB
@_JSON
@click.pass_obj
def report(settings: Settings, run_id: int, out: Path | None, db: str | None, as_json_: bool) -> None:
    """Report on benchmark run RUN, against what was known before it."""
    _check_report(out)
    with RecordStore.open(db or settings.db) as store:
        record = store.benches.get(run_id)
        lines = lines_of(store, record)
    if as_json_:
        click.echo(json.dumps(_run_json(record, lines, record.message.splitlines())))
    elif out is not None:
        _write(out, record, lines)
    else:
        click.echo(markdown(record, lines), nl=False)


@bench.command(epilog=_example("history matmul:256,256,256:float32 --device rack1-01/0"))
@click.argument("kernel")
@click.option("--device", required=True, help="Name of the device, as `tunefarm devices` shows it.")
@click.option("--limit", type=Whole(1, 10_000), default=50, show_default=True, help="Latest results.")
@DB
@_JSON
@click.pass_obj
def history(settings: Settings, kernel: str, device: str, limit: int, db: str | None, as_json_: bool) -> None:
    """Show the times of KERNEL on a device, oldest first, and where their level changed."""
    import numpy as np

    with RecordStore.open(db or settings.db) as store:
        found = [r for r in store.benches.series(kernel, device, limit) if r.cost is not None]
    costs = [r.cost for r in found if r.cost is not None]
    steps = set(find_steps(np.log(costs))) if costs else set()
    if as_json_:
        rows = [{"run": r.run_id, "time_s": r.cost, "at": r.measured_at.isoformat()} for r in found]
        click.echo(json.dumps([row | {"step": at in steps} for at, row in enumerate(rows)]))
        return
    if not found:
        raise click.ClickException(f"nothing was measured of {kernel} on {device}")
    table = Table("run", "measured (UTC)", "time", "95 % interval", "toolchain", "")
    for at, result in enumerate(found):
        table.add_row(
            str(result.run_id),
            f"{result.measured_at:%Y-%m-%d %H:%M}",
            duration(result.cost),
            f"{duration(result.low)} to {duration(result.high)}",
            result.toolchain,
            "another level" if at in steps else "",
        )
    show_table(table, "toolchain")
