"""A run of `tunefarm tune`: the store, the devices and the engine put together."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import click

from compiler.target.options import filled
from compiler.target.target import Target
from tunefarm.cli.common import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_UNREAD, console, nobody_reads
from tunefarm.cli.models.inputs import parse_sizes
from tunefarm.cli.tuning.display import WhileRead, beginning, make_display, models_json, summary_table
from tunefarm.cli.tuning.failures import all_failed
from tunefarm.cli.tuning.family import family_table, keep_families
from tunefarm.cli.tuning.fleet import fleet_maker, given_target
from tunefarm.cli.tuning.tuned_models import guard_models
from tunefarm.settings import Settings
from tuner.build.choose import make_builder
from tuner.build.process_builder import CandidateBuilder
from tuner.devices.fleet import Fleet
from tuner.devices.private_server import PrivateServer
from tuner.devices.supplies import LocalFleet
from tuner.engine.engine import EngineRun
from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge, TaskSearch
from tuner.engine.progress import NoWatcher, Snapshot
from tuner.engine.run_recorder import RunRecorder
from tuner.engine.scheduling import Policy
from tuner.errors import TuningError
from tuner.families.family import FamilySpec
from tuner.families.plan import TRIALS as FAMILY_TRIALS
from tuner.families.record import FamilyRecord
from tuner.kernels.family_jobs import asked_families, asked_sizes
from tuner.kernels.files import Item, KernelJob
from tuner.kernels.jobs import names_model, read_job, recorded_job
from tuner.kernels.kernel import CKernel
from tuner.kernels.model_guard import GuardedModel
from tuner.kernels.model_version import version_of
from tuner.records.db.passwords import shown_command
from tuner.records.model import RunState
from tuner.records.store import RecordStore

_REPEATED = ("db", "tracker", "key", "devices")


def run(settings: Settings, workloads: Sequence[str], given: dict[str, Any], server: PrivateServer | None) -> None:
    """Tune `workloads`, or go on with a run, as the flags `given` say.
    `server` is there where none of them names devices."""
    job = _asked_job(workloads, given)
    if given["target"]:
        given["target"] = str(given_target(given["target"]))
    make_fleet = fleet_maker(settings, given["devices"], given["key"], given["tracker"], given["priority"]) or (
        lambda device_class: LocalFleet(device_class, server=server)
    )
    with RecordStore.open(given["db"] or settings.db, create=given["resume"] is None) as store:
        resumed = _resumed_options(store, given) if given["resume"] is not None else None
        with closing(make_fleet(_device_class(store, given["resume"]) if resumed else "")) as fleet:
            if resumed:
                fleet.target()  # says at once when no device of the run's class is there
            options = resumed or _new_options(fleet, job, given)
            job = recorded_job(options.workloads, store) if resumed else job
            _tell_substitutes(job.items, options.target)
            knowledge = Knowledge(store, warm=options.warm_start and resumed is None)
            searches = [item.search(options.target, options, knowledge) for item in job.items]
            families = [item.search(options.target, options, knowledge) for item in job.families]
            searches += [search for family in families for search in family.searches]
            tasks = [search.task for search in searches]
            with closing(make_builder(options.builders, import_main=False, insecure=settings.insecure)) as builder:
                if resumed is None:
                    recorder = RunRecorder.create(
                        store, tasks, options, command=shown_command(["tunefarm", *sys.argv[1:]])
                    )
                    _register(store, job, recorder.run_id)
                else:
                    recorder = RunRecorder.resume(store, given["resume"], tasks, given["if_queued"])
                snapshot = _run(searches, fleet, builder, recorder, options, given)
            ended = store.runs.get(recorder.run_id)
            why = all_failed(ended, store.runs.failures(ended.id), given["db"])
            guards = guard_models(store, ended, options, fleet)
        records = keep_families(store, families, snapshot, isinstance(fleet, LocalFleet))
    if ended.state is RunState.OUT_OF_QUOTA:
        again = _resume_command(ended.id, given)
        click.echo(f"stopped: {ended.message}. When there are more hours, go on with: {again}", err=True)
    _print(snapshot, ended.state, searches, records, guards, why, given["as_json"])


def _asked_job(words: Sequence[str], given: dict[str, Any]) -> KernelJob:
    """The files, workloads and families that a command line names."""
    symbolic = [word for word in words if FamilySpec.is_family(word)]
    sized = given["shapes"], given["traffic"], given["portfolio"]
    models = any(names_model(word) for word in words) if given["shapes"] else False
    families = asked_families(symbolic, *sized, models=models)
    others = [word for word in words if word not in symbolic]
    job = read_job(others, parse_sizes(given["dims"]), asked_sizes(*sized) if models else None)
    return replace(job, families=(*job.families, *families))


def _tell_substitutes(items: Sequence[Item], target: str) -> None:
    """Say once for each compiler that it does not know the CPU, and which one it compiles for."""
    kernels = [item.what for item in items if isinstance(item.what, CKernel)]
    for text in dict.fromkeys(kernel.source_code.substitute(target) for kernel in kernels):
        if text:
            click.echo(text, err=True)


def _register(store: RecordStore, job: KernelJob, run_id: int) -> None:
    """Keep the job's models with their kernels, and that the run tunes them."""
    for source in job.models:
        store.models.link_run(store.models.register(version_of(source)).id, run_id)


def _resumed_options(store: RecordStore, given: dict[str, Any]) -> RunOptions:
    """The run's own options, with a budget raised if --trials says so.
    Raises TuningError when nothing is left."""
    run = store.runs.get(given["resume"])
    options = RunOptions.from_json(run.options)
    if given["builders"] is not None:
        options = replace(options, builders=given["builders"])
    elif not str(options.builders).isdecimal():  # where to send code is for who runs this to say, not for records
        hint = f"say where to build: --builders {options.builders}, or a number of processes here"
        raise TuningError(f"run {run.id} built on a cluster, which a record may not choose again", hint=hint)
    if given["trials"] is not None:
        options = replace(options, trials=given["trials"])
        store.runs.set_budgets(run.id, {task.position: options.trials for task in run.tasks})
    if options.trials and run.state is RunState.FINISHED and all(t.trials >= options.trials for t in run.tasks):
        raise TuningError(
            f"run {run.id} is finished: every workload had its {options.trials} trials",
            hint=f"raise the budget: tunefarm tune --resume {run.id} --trials {2 * options.trials}",
        )
    return options


def _device_class(store: RecordStore, run_id: int) -> str:
    """The device class that a run has measured on so far, or ""."""
    return next((trial.device_class for trial in store.trials.all(run_id) if trial.device_class), "")


def _new_options(fleet: Fleet, job: KernelJob, given: dict[str, Any]) -> RunOptions:
    flags = {
        "trials": given["trials"],
        "total_trials": given["total_trials"],
        "seconds": given["seconds"],
        "task_seconds": given["task_seconds"],
        "device_hours": given["device_hours"],
        "objective": given["objective"],
        "early_stopping": given["early_stopping"],
        "scheduler": given["scheduler"],
        "strategy": given["strategy"],
        "warm_start": given["warm_start"],
        "seed": given["seed"],
        "builders": given["builders"],
        "run_timeout_s": given["timeout"],
    }
    values = {**job.run, **{k: v for k, v in flags.items() if v is not None}}
    if any(values.get(limit) for limit in ("total_trials", "seconds", "task_seconds", "device_hours")):
        values.setdefault("trials", 0)  # the other limit is the one meant
    asked = given["target"] or (str(given_target(job.run["target"])) if job.run.get("target") else "")
    values["target"] = target_for(asked, fleet)
    if job.families:
        values.setdefault("trials", FAMILY_TRIALS)
        values.setdefault("scheduler", str(Policy.ROUND_ROBIN))  # a race needs all its sizes to get on together
    return RunOptions(workloads=job.records, **values)


class Targeted(Protocol):
    """A fleet, as far as its target goes."""

    def target(self) -> str: ...


def target_for(asked: str, fleet: Targeted) -> str:
    """The requested target.
    If it leaves open which GPU or CPU, it is the first device's. So "llvm" without `mcpu` and `mtriple` means the
    device's CPU, as it means this machine's in `tvm.build`. Other options stay as given."""
    target = Target(asked) if asked else None
    if target is None or (target.is_open and target.is_gpu):
        return fleet.target()
    if not target.is_open:
        return asked
    device = Target(fleet.target())
    if device.kind != target.kind:
        return asked
    return str(Target({"kind": target.kind, **filled(dict(target.options), dict(device.options))}))


def _run(
    searches: Sequence[TaskSearch], fleet: Fleet, builder: CandidateBuilder, recorder: RunRecorder, options: RunOptions,
    given: dict[str, Any],
) -> Snapshot:  # fmt: skip
    display = nullcontext(NoWatcher()) if given["quiet"] else make_display(console(sys.stderr), given["as_json"])
    try:
        with display as watcher:
            read = WhileRead(watcher)
            run = EngineRun(searches, fleet, builder, recorder, options, read)
            read.then(run.stop)
            with _stop_on_signals(run):
                return run.run()
    except KeyboardInterrupt:
        is_read = not nobody_reads()  # before a word of this can fail for it
        click.echo(
            f"stopped; what was measured is kept. Go on with: {_resume_command(recorder.run_id, given)}", err=True
        )
        raise click.exceptions.Exit(EXIT_INTERRUPTED if is_read else EXIT_UNREAD) from None


@contextmanager
def _stop_on_signals(run: EngineRun) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM end the run between two trials, so that none is lost.
    A second one ends it at once."""

    def stop(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        run.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _resume_command(run_id: int, given: dict[str, Any]) -> str:
    """The command that goes on with the run on the same devices and store."""
    words = ["tunefarm", "tune", "--resume", str(run_id)]
    for name in _REPEATED:
        values = given[name] if name == "devices" else [given[name]] if given[name] else []
        for value in values:
            words += ["--device" if name == "devices" else f"--{name}", value]
    return shown_command(words)


def _print(
    snapshot: Snapshot, state: RunState, searches: Sequence[TaskSearch], families: Sequence[FamilyRecord],
    guards: Mapping[str, GuardedModel], why: Sequence[str], as_json: bool,
) -> None:  # fmt: skip
    if as_json:
        told = {"state": str(state), **_as_json(snapshot, searches)}
        if guards:
            told["whole_models"] = [{"name": name, **guard.to_json()} for name, guard in guards.items()]
        click.echo(json.dumps({**told, "families": [f.to_json() for f in families]} if families else told))
    else:
        console().print(summary_table(snapshot))
        for family in families:
            console().print(family_table(family))
        for search in searches:
            if text := beginning(search):
                click.echo(f"{search.task.name}: {text}")
        for name, guard in guards.items():
            click.echo(f"{name}: {guard.text()}")
    for line in why:
        click.echo(line, err=True)
    errors = [f"{t.name}: {t.error}" for t in snapshot.tasks if t.error]
    if errors:
        click.echo("\n".join(errors), err=True)
        raise click.exceptions.Exit(EXIT_ERROR)


def _as_json(snapshot: Snapshot, searches: Sequence[TaskSearch]) -> dict[str, Any]:
    return {
        "run": snapshot.run_id,
        "seconds": snapshot.elapsed_s,
        "trials_per_second": snapshot.rate,
        "overhead": snapshot.overhead,
        "device_seconds": snapshot.held_s,
        "utilisation": snapshot.utilisation,
        "models": models_json(snapshot),
        "tasks": [
            {
                "name": t.name,
                "trials": t.done,
                "flops": t.flops,
                f"baseline_{t.unit.lower()}": t.baseline_cost,
                f"last_baseline_{t.unit.lower()}": t.last_baseline_cost,
                "baseline": t.baseline or None,
                "drift": t.drift,
                f"best_{t.unit.lower()}": t.best_cost,
                "speedup": t.speedup,
                "failures": {str(k): v for k, v in t.failures.items()},
                "error": t.error,
                "warm_start": len(search.warm.candidates),
                "guide": search.guide,
            }
            for t, search in zip(snapshot.tasks, searches, strict=True)
        ],
    }
