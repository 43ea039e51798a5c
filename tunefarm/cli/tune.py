"""`tunefarm tune`: tune workloads on devices, every trial in the record store."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import click
from rich.console import Console
from tuner.fleets import DirectFleet, LocalFleet, TrackerFleet

from tunefarm.cli.common import address
from tunefarm.cli.display import make_display, summary_table
from tunefarm.settings import Settings
from tuner.builder import LocalBuilder
from tuner.engine import TuningRun
from tuner.fleet import Fleet
from tuner.ledger import Ledger
from tuner.options import RunOptions
from tuner.progress import Silent, Snapshot
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec

_EPILOG = """\b
Examples:
  tunefarm tune matmul:512,512,512:float32
  tunefarm tune matmul:512,512,512 conv2d:1,64,56,56,64,3,3 --trials 200 --key cpu
  tunefarm tune matmul:1024,1024,1024 --device 127.0.0.1:9091 --strategy random
  tunefarm tune --resume 7
"""


@click.command(epilog=_EPILOG)
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@click.option("--trials", type=click.IntRange(1), help="Trials for each workload.  [default: 64]")
@click.option("--target", help="Target to build for.  [default: what the first device reports]")
@click.option("--key", help="Lease devices that match this key or expression from the tracker.")
@click.option("--tracker", help="Address of the tracker.  [default: the setting, 127.0.0.1:9190]")
@click.option("--device", "devices", multiple=True, metavar="HOST:PORT", help="Use this server; may be given often.")
@click.option("--db", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
@click.option("--strategy", help="evolutionary or random.  [default: evolutionary]")
@click.option("--seed", type=int, help="Seed of search and of the kernels' data.  [default: 0]")
@click.option("--builders", type=click.IntRange(1), help="Build processes.  [default: 2]")
@click.option("--timeout", type=float, help="Seconds a candidate may run.  [default: 10]")
@click.option("--resume", type=int, metavar="RUN", help="Go on with an interrupted run.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_obj
def tune(settings: Settings, workloads: tuple[str, ...], **given: Any) -> None:
    """Tune WORKLOADs: search for their fastest schedules and record every trial.

    A workload is an operator, its sizes and a dtype, such as matmul:512,512,512:float32. Without --key or --device a
    private server on this machine measures. Ctrl-C keeps what was measured; --resume goes on.
    """
    if bool(workloads) == bool(given["resume"]):
        raise click.UsageError("give workloads to tune, or --resume RUN")
    store = RecordStore.open(given["db"] or settings.db, create=given["resume"] is None)
    fleet = _fleet(settings, given)
    try:
        options, tasks = _plan(store, fleet, workloads, given)
        if given["resume"] is None:
            ledger = Ledger.create(store, tasks, options, command=_command())
        else:
            ledger = Ledger.resume(store, given["resume"], tasks)
    except BaseException:
        fleet.close()
        raise
    snapshot = _run(tasks, fleet, ledger, options, quiet=given["quiet"])
    if given["as_json"]:
        click.echo(json.dumps(_as_json(snapshot)))
    else:
        Console().print(summary_table(snapshot))
    errors = [t.error for t in snapshot.tasks if t.error]
    if errors:
        click.echo("\n".join(errors), err=True)
        sys.exit(1)


def _run(tasks: Sequence[TuningTask], fleet: Fleet, ledger: Ledger, options: RunOptions, quiet: bool) -> Snapshot:
    console = Console(stderr=True)
    display = nullcontext(Silent()) if quiet else make_display(console)
    builder = LocalBuilder(options.builders)
    try:
        with display as watcher:
            return TuningRun(tasks, fleet, builder, ledger, options, watcher).run()
    except KeyboardInterrupt:
        click.echo(
            f"stopped; what was measured is kept. Go on with: tunefarm tune --resume {ledger.run_id}", err=True
        )
        raise


def _plan(
    store: RecordStore, fleet: Fleet, workloads: Sequence[str], given: dict[str, Any]
) -> tuple[RunOptions, list[TuningTask]]:
    """The run's options and tasks, from the flags or from the run that is resumed."""
    if given["resume"] is not None:
        options = RunOptions.from_json(store.run(given["resume"]).options)
        if given["trials"] is not None:
            options = replace(options, trials=given["trials"])
        specs = [WorkloadSpec.from_json(w) for w in options.workloads]
        return options, [TuningTask.from_spec(s, options.target) for s in specs]
    specs = [WorkloadSpec.parse(w) for w in workloads]
    target = given["target"] or fleet.target()
    flags = {
        "trials": given["trials"],
        "strategy": given["strategy"],
        "seed": given["seed"],
        "builders": given["builders"],
        "run_timeout_s": given["timeout"],
    }
    tasks = [TuningTask.from_spec(s, target) for s in specs]
    options = RunOptions(
        target=target,
        workloads=tuple(s.to_json() for s in specs),
        **{k: v for k, v in flags.items() if v is not None},
    )
    return options, tasks


def _fleet(settings: Settings, given: dict[str, Any]) -> Fleet:
    if given["devices"]:
        return DirectFleet([address(d, "--device") for d in given["devices"]])
    if given["key"] or given["tracker"]:
        host, port = address(given["tracker"] or settings.tracker, "--tracker")
        return TrackerFleet(host, port, given["key"] or "")
    return LocalFleet()


def _command() -> str:
    return shlex.join(["tunefarm", *sys.argv[1:]])


def _as_json(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "run": snapshot.run_id,
        "seconds": snapshot.elapsed_s,
        "trials_per_second": snapshot.rate,
        "tasks": [
            {
                "name": t.name,
                "trials": t.done,
                "flops": t.flops,
                "baseline_s": t.baseline_cost,
                "best_s": t.best_cost,
                "speedup": t.speedup,
                "failures": {str(k): v for k, v in t.failures.items()},
                "error": t.error,
            }
            for t in snapshot.tasks
        ],
    }
