"""`tunefarm runs` and `tunefarm best`: what the record store knows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.table import Table

from compiler.errors import TunefarmError
from compiler.target.target import Target
from tunefarm.cli.common import DB, EXIT_NO_CONFIG, JSON, JSON_IN_SECONDS, OBJECTIVE, Whole
from tunefarm.cli.records.best_family import best_family, family_of
from tunefarm.cli.records.subject import ShownSubject, find_subject, open_store, values_of
from tunefarm.cli.tables import show_table
from tunefarm.cli.tuning.failures import failures_text
from tunefarm.cli.tuning.fleet import given_target
from tunefarm.settings import Settings
from tuner.devices.supplies import local_target
from tuner.goals import Goal
from tuner.kernels.run_models import run_title
from tuner.number_text import amount, duration, energy
from tuner.records.db.database import parse_url, show_url
from tuner.records.db.passwords import shown_command
from tuner.records.lookup.near import NearConfig
from tuner.records.model import BestConfig, BestLookup, FailureCount, Run, RunState
from tuner.records.runs.resuming import may_resume, resume_command
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.transfer.nearest import nearby

_RUNS_EPILOG = """\b
Examples:
  tunefarm runs
  tunefarm runs --json | jq '.[0].state'
  tunefarm runs --failures 7
\b
Exit status: 0, 1 an error, 2 wrong usage.
"""
_STOPPED_SHOWN = 5  # runs whose end is explained below the table
_BEST_EPILOG = """\b
Examples:
  tunefarm best matmul:512,512,512:float32
  tunefarm best matmul:512,512,512 --target "llvm -mcpu=znver3 -num-cores=1"
  tunefarm best matmul:512,512,512 --objective energy
  tunefarm best kernels.toml:scale
  tunefarm best dense:M,3072,768 --shapes M=20,40
\b
Exit status: 0 a config was found, 1 an error, 2 wrong usage, 3 there is none.
"""


@click.command(epilog=_RUNS_EPILOG)
@DB
@click.option("--limit", type=Whole(1), default=20, show_default=True, help="How many, newest first.")
@click.option("--failures", type=Whole(1), metavar="RUN", help="Say why trials of RUN failed, with the first texts.")
@JSON
@click.pass_obj
def runs(settings: Settings, db: str | None, limit: int, failures: int | None, as_json: bool) -> None:
    """List tuning runs, newest first, or the failures of one."""
    with RecordStore.open(db or settings.db) as store:
        if failures is not None:
            _print_failures(store.runs.get(failures), store.runs.failures(failures), as_json)
            return
        found = store.runs.newest(limit=limit)
    if as_json:
        click.echo(json.dumps([_run_json(r, db) for r in found]))
        return
    if not found:
        click.echo("no runs yet; start one: tunefarm tune matmul:512,512,512:float32")
        return
    table = Table("run", "state", "started (UTC)", "trials", "failed", "workloads")
    for run in found:
        table.add_row(
            str(run.id),
            run.state.words,
            f"{run.started_at:%Y-%m-%d %H:%M}",
            f"{run.trials}/{run.budget}",
            str(run.failed),
            run_title(run),
        )
    show_table(table, "workloads")
    stopped = [run for run in found if run.state in (RunState.INTERRUPTED, RunState.OUT_OF_QUOTA)]
    for run in stopped[:_STOPPED_SHOWN]:
        if may_resume(run):
            why = f"run {run.id} is {run.state.words}: {run.message or 'no reason is known'}"
            click.echo(f"{why}; go on with: {resume_command(run, db)}")


def _print_failures(run: Run, failures: Sequence[FailureCount], as_json: bool) -> None:
    if not as_json:
        click.echo(failures_text(run, failures))
        return
    names = {task.id: task.workload.name for task in run.tasks}
    told = [
        {"kernel": names[f.task_id], "kind": f.kind, "count": f.count, "trial": f.first_trial_id, "text": f.first_text}
        for f in failures
    ]
    click.echo(json.dumps(told))


def _run_json(run: Run, db: str | None) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        "state": str(run.state),
        "message": run.message,
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "trials": run.trials,
        "budget": run.budget,
        "failed": run.failed,
        "resume": resume_command(run, db) if may_resume(run) else None,
    }


@click.command(epilog=_BEST_EPILOG)
@click.argument("workload")
@click.option("--target", default="", help="Target string.  [default: this machine]")
@click.option("--device-class", help="Device class the config must be for.")
@OBJECTIVE
@click.option("--shapes", multiple=True, metavar="M=20,40", help="For a family: explain the config at these sizes.")
@DB
@JSON_IN_SECONDS
@click.pass_obj
def best(
    settings: Settings, workload: str, target: str, device_class: str | None, db: str | None, as_json: bool,
    objective: str, shapes: tuple[str, ...],
) -> None:  # fmt: skip
    """Show the best known config of WORKLOAD, and why it is the one.

    WORKLOAD is a name, FILE:NAME, the name of a kernel that the store has, or its key. Where there is no config (exit
    status 3): what was looked for, the nearest workloads that are tuned, and how to tune it. A family, such as
    dense:M,3072,768, is shown with all of its configs.
    """
    where = Target(local_target()) if not target else given_target(target)
    address = db or settings.db
    family = family_of(workload)
    if family is None and shapes:
        raise click.UsageError("--shapes is for families, such as dense:M,3072,768")
    if family is not None and objective != "time":
        raise click.UsageError("--objective energy is for kernels: families are chosen by time")
    with open_store(address, workload) as store:
        if family is not None:
            looked_in = {"device class": device_class or "any", "record store": show_url(parse_url(address))}
            flags = {"--target": target, "--db": db}
            best_family(store, family, workload, where, device_class, shapes, as_json, looked_in, flags)
            return
        found = find_subject(store, workload, where)
        lookup = store.best.look_up(found.key, str(where), device_class, goal=Goal(objective))
        near = nearby(store, found.task.func, str(where), device_class) if found.task and not lookup.config else ()
    if as_json:
        click.echo(json.dumps({**found.json, "target": str(where), **_lookup_json(lookup)}))
    elif lookup.config is None:
        looked_in = {"device class": device_class or "any", "record store": show_url(parse_url(address))}
        word = workload if found.item is not None and "file" in found.item.record else found.name
        _print_miss(
            found,
            str(where),
            lookup,
            near,
            looked_in,
            word,
            {"--target": target, "--db": db, "--objective": "" if objective == "time" else objective},
        )
    else:
        print_config(found, str(where), lookup, lookup.config)
    if lookup.config is None:
        raise click.exceptions.Exit(EXIT_NO_CONFIG)


def print_config(found: ShownSubject, target: str, lookup: BestLookup, config: BestConfig) -> None:
    """Say how fast the best config is and why it is the best; of a kernel of one's own, its values."""
    click.echo(f"{found.name} on {target}: {lookup.match}")
    click.echo(f"  {_speed(found.flops, config.cost)}")
    if values := values_of(config.trace):
        click.echo(f"  {', '.join(f'{name} = {value}' for name, value in values.items())}")
    click.echo(f"  between {duration(config.low)} and {duration(config.high)} with 95 % confidence")
    if config.joules is not None:
        low, high = config.bounds.low, config.bounds.high
        click.echo(f"  {energy(config.joules)} a call, between {energy(low)} and {energy(high)}")
    if (cost := config.untuned_cost) is not None and not config.worse_than_untuned:
        how = "as fast" if config.goal is Goal.TIME else "as frugal"
        than = config.baseline or "the function as written"
        times, was = f"{cost / config.bounds.median:.2f} times", amount(cost, config.goal.unit)
        click.echo(f"  {times} {how} as {than} in its run, {was}")
    click.echo(f"  measured on {config.device} in run {config.run_id}, trial {config.trial_id}")
    for line in lookup.explain:
        click.echo(f"  - {line}")


def _print_miss(
    found: ShownSubject, target: str, lookup: BestLookup, near: Sequence[tuple[float, NearConfig]],
    looked_in: Mapping[str, str], word: str, flags: Mapping[str, str | None],
) -> None:  # fmt: skip
    """`looked_in`: what else the config had to be of.
    `word` and `flags` are what a run to tune it is given."""
    click.echo(f"{found.name}: miss")
    for name, text in {"target": target, **looked_in}.items():
        click.echo(f"  {name:12}  {text}")
    for line in lookup.explain:
        click.echo(f"  - {line}")
    if near:
        click.echo("the nearest workloads with a config here (`tunefarm build` adapts the first that fits):")
        width = max(len(config.workload_name) for _, config in near)
        for _, config in near:
            click.echo(f"  {config.workload_name:{width}}  {_speed(_flops(config.workload_name), config.cost)}")
    words = [word for flag, value in flags.items() if value for word in (flag, value)]
    click.echo(f"tune it: {shown_command(['tunefarm', 'tune', word, *words])}")


def _speed(flops: float | None, cost: float) -> str:
    return f"{duration(cost)} a call" + (f", {flops / cost / 1e9:.1f} GFLOP/s" if flops else "")


def _flops(name: str) -> float | None:
    """None for a workload that its name does not make, such as a kernel of one's own."""
    try:
        return TuningTask.from_spec(name, Target("llvm")).flops
    except TunefarmError:
        return None


def _lookup_json(lookup: BestLookup) -> dict[str, Any]:
    config = lookup.config
    return {
        "match": lookup.match,
        "explain": list(lookup.explain),
        "config": None
        if config is None
        else {
            "target": config.target,
            "digest": config.digest,
            "trace": json.loads(config.trace),
            "values": values_of(config.trace) or None,
            "cost_s": config.cost,
            "low_s": config.low,
            "high_s": config.high,
            "untuned_s": config.untuned,
            "baseline": config.baseline or None,
            "joules": config.joules,
            "untuned_joules": config.untuned_joules,
            "device": config.device,
            "device_class": config.device_class,
            "run": config.run_id,
            "trial": config.trial_id,
        },
    }
