"""`tunefarm models`: the models of the record store, how well they are tuned, and how long they take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from compiler.target.target import Target
from tunefarm.cli.common import DB, JSON_IN_SECONDS, CommandGroup, Whole
from tunefarm.cli.completion import FileOrName
from tunefarm.cli.models.names import ModelName, find_model
from tunefarm.cli.models.profile import profile
from tunefarm.cli.tables import show_table
from tunefarm.cli.tuning.fleet import given_target
from tunefarm.settings import Settings
from tuner.kernels.coverage import KernelCoverage, ModelCoverage
from tuner.number_text import duration, energy
from tuner.records.model_store.facts import KernelShare, Model, ModelTime, ModelVersion, ProfileJob
from tuner.records.model_store.writing import MOST_PART
from tuner.records.store import RecordStore

_SHOWN = 20

_EPILOG = """\b
Examples:
  tunefarm models list
  tunefarm models show resnet18
  tunefarm models add model.onnx --dim batch=8
"""


@click.group(cls=CommandGroup, epilog=_EPILOG)
def models() -> None:
    """List models that were tuned, run or registered, how well they are tuned and how long they take."""


@models.command("list", epilog="\b\nExamples:\n  tunefarm models list\n  tunefarm models list --json | jq '.[].name'")
@DB
@click.option("--limit", type=Whole(1, 1000), default=50, show_default=True, help="How many, the newest first.")
@JSON_IN_SECONDS
@click.pass_obj
def list_command(settings: Settings, db: str | None, limit: int, as_json: bool) -> None:
    """List the store's models, the newest first."""
    with RecordStore.open(db or settings.db) as store:
        newest = store.models.page(limit)
        known = store.models.last_times([model.id for model in newest])
    found = [(model, known.get(model.id, ())) for model in newest]
    if as_json:
        click.echo(json.dumps([_model_json(model) | {"last": _time_json(times)} for model, times in found]))
        return
    table = Table("model", "versions", "last time", "on", "when (UTC)", box=None)
    for model, times in found:
        last = times[0] if times else None
        table.add_row(
            model.name,
            str(model.versions),
            duration(last.cost) if last else "–",
            last.device_class if last else "–",
            f"{last.measured_at:%Y-%m-%d %H:%M}" if last else "–",
        )
    show_table(table, "model")
    if not found:
        click.echo("no models yet: tunefarm tune model.onnx, or tunefarm run model.onnx --record")


_SHOW_EPILOG = """\b
Examples:
  tunefarm models show resnet18
  tunefarm models show resnet18 --device-class zen4/znver4/8t/0a1b --json
  tunefarm models show resnet18 --time 12
"""


@models.command("show", epilog=_SHOW_EPILOG)
@click.argument("which", type=ModelName(), metavar="MODEL")
@DB
@click.option("--version", "digest", default="", help="The first digits of a version's digest.  [default: the newest]")
@click.option("--target", help="Target to build for.  [default: that of the last time, or this machine's]")
@click.option("--device-class", help="Device class.  [default: that of the last time, or this machine's]")
@click.option("--time", "number", type=Whole(1), help="Show only where the time of this measurement went.")
@JSON_IN_SECONDS
@click.pass_obj
def show(
    settings: Settings, which: str, db: str | None, digest: str, target: str | None, device_class: str | None,
    as_json: bool, number: int | None,
) -> None:  # fmt: skip
    """Show a model: its versions, how well its kernels are tuned, and its end-to-end times."""
    from compiler.runtime.measure.peaks import measured_peaks
    from tuner.kernels.coverage import coverage_of

    with RecordStore.open(db or settings.db) as store:
        model = find_model(store, which)
        if number is not None:
            _show_time(model, store.models.time(model.id, number), store.models.profile(number), as_json)
            return
        version = store.models.version_of(model.id, digest)
        times = store.models.times(model.id, device_class, limit=_SHOWN)
        where, place = _place(times, target, device_class)
        coverage = coverage_of(store, version, where, place, Target(where).kind.name)
        if coverage.not_known and Target(where).is_cpu and place == _this_machine():
            coverage = coverage_of(store, version, where, place, Target(where).kind.name, measured_peaks())
        versions = store.models.versions(model.id, _SHOWN)
        runs = store.models.runs(version.id)
        jobs = store.models.jobs(version.id)
    if as_json:
        click.echo(
            json.dumps(
                {
                    **_model_json(model),
                    "runs": list(runs),
                    "all_versions": [_version_json(each) for each in versions],
                    "coverage": coverage_json(coverage),
                    "times": [_time_json([time]) for time in times],
                    "profiles": [_job_json(job) for job in jobs],
                }
            )
        )
        return
    _print(model, version, coverage, times, runs)
    _print_jobs(model, jobs)


def _place(times: Sequence[ModelTime], target: str | None, device_class: str | None) -> tuple[str, str]:
    """The requested target and device class. By default they are the last time's, else this machine's."""
    from tuner.devices.supplies import local_target

    last = times[0] if times else None
    where = str(given_target(target)) if target else last.target if last else local_target()
    return where, device_class or (last.device_class if last else _this_machine())


def _this_machine() -> str:
    """The device class of this machine."""
    from rpc_server.machine.fingerprint import local_fingerprint

    return local_fingerprint().device_class


def _print(
    model: Model, version: ModelVersion, coverage: ModelCoverage, times: Sequence[ModelTime], runs: Sequence[int]
) -> None:
    sizes = ", ".join(f"{name}={size}" for name, size in version.sizes.items())
    click.echo(f"{model.name}, version {version.digest[:12]} ({version.form}{', ' + sizes if sizes else ''})")
    if runs:
        click.echo(f"tuned by run{'s' if len(runs) > 1 else ''} {', '.join(map(str, runs))}")
    table = Table("kernel", "calls", "config", "time", "share", "roofline", "could save", box=None)
    for kernel in coverage.kernels:
        table.add_row(*_row(kernel, coverage))
    show_table(table, "kernel")
    click.echo(f"{coverage.tuned} of {len(coverage.kernels)} kernels tuned on {coverage.device_class}")
    if coverage.not_known:
        click.echo(f"parts of the roofline are not known: {coverage.not_known}")
    if coverage.gain:
        click.echo(f"tuning should still save {duration(coverage.gain)} a run")
    if not times:
        click.echo(f"no end-to-end times yet: tunefarm run {model.name}.{version.form} --record")
        return
    told = any("joules" in time.environment for time in times)
    energies = ("energy",) if told else ()
    table = Table("number", "time", *energies, "on", "release", "tuned", "version", "when (UTC)", box=None)
    for time in times:
        joules = time.environment.get("joules")
        table.add_row(
            str(time.id), duration(time.cost), *([] if not told else ["–" if joules is None else energy(joules)]),
            time.device, time.release or "–", "–" if time.tuned_share is None else f"{time.tuned_share:.0%}",
            "this" if time.version_id == version.id else "another", f"{time.measured_at:%Y-%m-%d %H:%M}",
        )  # fmt: skip
    show_table(table, "on")


def _print_jobs(model: Model, jobs: Sequence[ProfileJob]) -> None:
    """The profiles that were asked for on the dashboard or over the API, with the command that shows each."""
    if not jobs:
        return
    table = Table("profile on", "state", "asked (UTC)", "what came of it", box=None)
    for job in jobs:
        made = f"tunefarm models show {model.name} --time {job.time_id}" if job.time_id else job.message or "–"
        table.add_row(job.key or "this machine", str(job.state), f"{job.asked_at:%Y-%m-%d %H:%M}", made)
    show_table(table, "what came of it")


def _show_time(model: Model, time: ModelTime, kernels: Sequence[KernelShare], as_json: bool) -> None:
    """One measurement, and where its time went."""
    if as_json:
        shown = [
            {
                "kernel": kernel.name, "calls": kernel.calls, "seconds": kernel.seconds, "workload": kernel.workload,
                "config": kernel.config or None, "roofline": kernel.roofline,
            }
            for kernel in kernels
        ]  # fmt: skip
        click.echo(json.dumps({"model": model.name, **(_time_json([time]) or {}), "kernels": shown}))
        return
    click.echo(
        f"{model.name}, time {time.id}: {duration(time.cost)} on {time.device}, {time.measured_at:%Y-%m-%d %H:%M}"
    )
    if not kernels:
        click.echo("it was timed, not profiled")
        return
    whole = sum(kernel.seconds for kernel in kernels)
    table = Table("kernel", "calls", "time", "share", "config", "roofline", box=None)
    for kernel in kernels:
        share = f"{kernel.seconds / whole:.1%}" if whole else "–"
        roofline = "–" if kernel.roofline is None else f"{kernel.roofline:.0%}"
        table.add_row(kernel.name, str(kernel.calls), duration(kernel.seconds), share, kernel.config or "–", roofline)
    show_table(table, "kernel")


def _row(kernel: KernelCoverage, coverage: ModelCoverage) -> list[str]:
    whole = coverage.seconds
    seconds = kernel.seconds
    return [
        kernel.task.name,
        str(kernel.task.calls),
        kernel.how,
        "–" if seconds is None else duration(seconds),
        "–" if seconds is None or not whole else f"{seconds / whole:.1%}",
        "–" if kernel.roofline is None else f"{kernel.roofline:.0%}",
        "–" if kernel.gain is None else duration(kernel.gain),
    ]


_ADD_EPILOG = """\b
Examples:
  tunefarm models add model.onnx
  tunefarm models add model.onnx --dim batch=8 --name net-batch8
  tunefarm models add spec.py:network
  tunefarm models add nets/*.onnx
"""


@models.command("add", epilog=_ADD_EPILOG)
@click.argument("files", nargs=-1, required=True, type=FileOrName(), metavar="FILE...")
@DB
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of a symbolic dimension.")
@click.option("--name", help="What to call it.  [default: the file's name]")
@click.option("--send", is_flag=True, help="Also keep the file in the store, so that the dashboard can profile it.")
@JSON_IN_SECONDS
@click.pass_obj
def add(
    settings: Settings, files: tuple[str, ...], db: str | None, dims: tuple[str, ...], name: str | None, send: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Register models with their kernels, without tuning them: all of them or none.

    Their weights stay in the files unless they are sent, too.
    """
    from dataclasses import replace

    from tunefarm.cli.models.inputs import parse_sizes
    from tuner.kernels.model_version import model_source, version_of

    if name and len(files) > 1:
        raise click.UsageError("--name is for one model")
    sources = [model_source(file, parse_sizes(dims)) for file in files]
    news = [version_of(source) for source in sources]
    if name:
        news = [replace(news[0], name=name)]
    with RecordStore.open(db or settings.db, create=True) as store:
        made = list(store.models.register_all(news))
        if send:
            made = [each if each.kept else _sent(store, each, source.path) for each, source in zip(made, sources)]
    if as_json:
        shown = [_version_json(each) for each in made]
        click.echo(json.dumps(shown[0] if len(files) == 1 else shown))
        return
    for each, new in zip(made, news, strict=True):
        click.echo(f"{each.model}, version {each.digest[:12]}: {len(new.tasks)} kernels, {len(new.graph)} calls")


def _sent(store: RecordStore, version: ModelVersion, path: Path) -> ModelVersion:
    """The version with its whole file in the store."""
    with path.open("rb") as file:
        file.seek(version.kept_bytes)
        while piece := file.read(MOST_PART):
            version = store.models.add_part(version.id, version.kept_bytes, piece)
    return version


_TUNE_EPILOG = """\b
Examples:
  tunefarm models tune resnet18 --trials 200 --key cpu
  tunefarm models tune resnet18 --version 3f9c1e
"""


@models.command("tune", epilog=_TUNE_EPILOG)
@click.argument("which", type=ModelName(), metavar="MODEL")
@click.option("--version", "digest", default="", help="The first digits of a version's digest.  [default: the newest]")
@click.option("--trials", type=Whole(1), default=64, show_default=True, help="Trials for each kernel.")
@click.option("--target", help="Target to build for.  [default: what the first device reports]")
@click.option("--key", help="Lease devices that match this key or expression from the tracker.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting, 127.0.0.1:9190]")
@click.option("--device", "devices", multiple=True, metavar="HOST:PORT", help="Use this server; may be repeated.")
@DB
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the result on stdout, progress on stderr.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def tune_stored(
    ctx: click.Context, which: str, digest: str, trials: int, target: str | None, key: str | None,
    tracker: str | None, devices: tuple[str, ...], db: str | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Tune the kernels of a model that the store knows, without its file."""
    from tunefarm.cli.tuning.fleet import fleet_maker
    from tunefarm.cli.tuning.tune import tune
    from tuner.devices.supplies import local_target
    from tuner.kernels.stored import queue_model

    where = str(given_target(target)) if target else ""
    open_fleet = fleet_maker(ctx.obj, devices, key, tracker)
    if not where and open_fleet is not None:
        fleet = open_fleet("")
        where = fleet.target()
        fleet.close()
    with RecordStore.open(db or ctx.obj.db) as store:
        version = store.models.version_of(find_model(store, which).id, digest)
        run = queue_model(store, version, where or local_target(), trials=trials, key=key or "")
    ctx.invoke(
        tune, workloads=(), resume=run.id, key=key, tracker=tracker, devices=devices, db=db, as_json=as_json,
        quiet=quiet,
    )  # fmt: skip


@models.command("remove", epilog="\b\nExamples:\n  tunefarm models remove old-net --yes")
@click.argument("which", type=ModelName(), metavar="MODEL")
@DB
@click.option("--version", "digest", default="", help="Only the version whose digest begins with this.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.pass_obj
def remove(settings: Settings, which: str, db: str | None, digest: str, yes: bool) -> None:
    """Remove a model with its versions, files, times and profiles. What was tuned for it stays."""
    with RecordStore.open(db or settings.db) as store:
        model = find_model(store, which)
        many = "" if model.versions == 1 else "s"
        what = f"version {digest} of {model.name}" if digest else f"{model.name} with {model.versions} version{many}"
        if not yes:
            click.confirm(f"remove {what} for good?", abort=True)
        if digest:
            store.models.remove_version(store.models.version_of(model.id, digest).id)
        else:
            store.models.remove(model.id)
    click.echo(f"removed {what}")


_READERS_EPILOG = """\b
Examples:
  tunefarm models readers net
  tunefarm models readers net ada bob
  tunefarm models readers net '*'
  tunefarm models readers net --nobody
"""


@models.command("readers", epilog=_READERS_EPILOG)
@click.argument("which", type=ModelName(), metavar="MODEL")
@click.argument("names", nargs=-1)
@click.option("--nobody", is_flag=True, help="Nobody but its owner.")
@DB
@click.pass_obj
def readers(settings: Settings, which: str, names: tuple[str, ...], nobody: bool, db: str | None) -> None:
    """Set whose tokens may read a model over the web app beside its owner's: NAMES, or "*" for all.

    Without names it shows them.
    """
    if names and nobody:
        raise click.UsageError("give names or --nobody")
    with RecordStore.open(db or settings.db) as store:
        model = find_model(store, which)
        if names or nobody:
            model = store.models.set_readers(model.id, names)
    click.echo(f"{model.name} is read by {', '.join(model.readers) or 'its owner alone'}")


models.add_command(profile)


# ---------------------------------------------------------------------------------------- JSON


def _model_json(model: Model) -> dict[str, Any]:
    return {
        "id": model.id, "name": model.name, "owner": model.owner, "readers": list(model.readers),
        "versions": model.versions, "latest": model.latest, "updated_at": model.updated_at.isoformat(),
    }  # fmt: skip


def _version_json(version: ModelVersion) -> dict[str, Any]:
    return {
        "id": version.id, "model": version.model, "digest": version.digest, "form": version.form,
        "sizes": dict(version.sizes), "created_at": version.created_at.isoformat(),
    }  # fmt: skip


def _time_json(times: Sequence[ModelTime]) -> dict[str, Any] | None:
    if not times:
        return None
    time = times[0]
    return {
        "id": time.id, "version": time.version_id, "cost_s": time.cost, "low_s": time.low, "high_s": time.high,
        "device": time.device, "device_class": time.device_class, "target": time.target, "release": time.release,
        "tuned_share": time.tuned_share, "measured_at": time.measured_at.isoformat(),
        "joules": time.environment.get("joules"), "clock_mhz": time.environment.get("clock_mhz"),
    }  # fmt: skip


def _job_json(job: ProfileJob) -> dict[str, Any]:
    return {
        "id": job.id, "key": job.key, "state": str(job.state), "message": job.message, "time": job.time_id,
        "asked_by": job.asked_by, "asked_at": job.asked_at.isoformat(),
    }  # fmt: skip


def coverage_json(coverage: ModelCoverage) -> dict[str, Any]:
    """A coverage as `tunefarm models show --json` prints it."""
    return {
        "version": coverage.version.digest, "target": coverage.target, "device_class": coverage.device_class,
        "tuned": coverage.tuned, "seconds": coverage.seconds, "rest_s": coverage.rest,
        "tuned_share": coverage.tuned_share, "gain_s": coverage.gain,
        "roofline_not_known": coverage.not_known or None,
        "kernels": [
            {
                "kernel": kernel.task.name, "workload": kernel.task.workload_key, "calls": kernel.task.calls,
                "config": kernel.how, "seconds": kernel.seconds, "untuned_s": kernel.untuned,
                "roofline": kernel.roofline, "gain_s": kernel.gain,
            }
            for kernel in coverage.kernels
        ],
    }  # fmt: skip
