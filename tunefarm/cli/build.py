"""`tunefarm build`: what a build job runs. Fetch best configs over HTTP, replay them, build, check, report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from compiler.driver import compile_artifact
from compiler.schedule.trace import Trace, apply_trace
from tuner.fleets import DirectFleet, LocalFleet, TrackerFleet

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from compiler.target import Target
from rpc_server.measure import EvaluatorOptions, MeasureRequest, MeasureResult
from tunefarm.cli.common import address
from tunefarm.client import BestReply, Client
from tunefarm.settings import Settings
from tuner.fleet import DeviceSession, Fleet
from tuner.task import TuningTask

_EPILOG = """\b
Examples:
  tunefarm build matmul:512,512,512:float32 --out build/
  tunefarm build matmul:512,512,512 conv2d:1,64,56,56,64,3,3 --require-tuned --check
"""


class NotTunedError(TunefarmError):
    """Kernels have no config and the build asked for one."""

    kind = "not_tuned"


class CheckFailedError(TunefarmError):
    """A tuned kernel's output differs from the untuned one's, or it does not run."""

    kind = "check_failed"


@dataclass(frozen=True)
class Built:
    """One kernel of the build report. `measured` is None when it was not run."""

    task: TuningTask
    reply: BestReply
    artifact: Artifact
    path: Path | None
    measured: MeasureResult | None

    @property
    def how(self) -> str:
        return "untuned" if not self.reply.hit else {"exact": "hit", "compatible": "near"}[self.reply.match]


@click.command(epilog=_EPILOG)
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD...")
@click.option("--api", help="Address of the web app.  [default: the setting, http://127.0.0.1:9180]")
@click.option("--target", help="Target to build for.  [default: the device's, or this machine's]")
@click.option("--device-class", help="Device class the configs must be for.  [default: the device's, if one is given]")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for the artifacts.")
@click.option("--require-tuned", is_flag=True, help="Fail when a kernel has no config.")
@click.option("--check", is_flag=True, help="Run each kernel and compare it with the untuned build.")
@click.option("--key", help="Check on a device that the tracker lends for this key.")
@click.option("--tracker", help="Address of the tracker.  [default: the setting]")
@click.option("--device", metavar="HOST:PORT", help="Check on this server.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.pass_obj
def build(settings: Settings, workloads: tuple[str, ...], **given: Any) -> None:
    """Build WORKLOADs with the best configs the web app knows, and report hit, near or untuned for each."""
    with ExitStack() as stack:
        client = stack.enter_context(Client(given["api"] or settings.api))
        session = _session(stack, settings, given)
        device = session.fingerprint() if session is not None else None
        target = Target(given["target"] or (device.target if device else str(Target.host())))
        device_class = given["device_class"] or (device.device_class if device else None)
        tasks = [TuningTask.from_spec(w, target) for w in workloads]
        replies = [client.best(t.key, str(target), device_class) for t in tasks]
        if given["require_tuned"]:
            _require(tasks, replies)
        report = [_build(t, r, given["out"], session) for t, r in zip(tasks, replies)]
    if given["as_json"]:
        click.echo(json.dumps([_as_json(b) for b in report]))
    else:
        for built in report:
            _print(built)


def _require(tasks: Sequence[TuningTask], replies: Sequence[BestReply]) -> None:
    missing = [(t, r) for t, r in zip(tasks, replies) if not r.hit]
    if missing:
        lines = "\n".join(f"    {t.name}: {'; '.join(r.explain)}" for t, r in missing)
        raise NotTunedError(
            f"{len(missing)} of {len(tasks)} kernels have no config for {tasks[0].target}:\n{lines}",
            hint=f"tune them: tunefarm tune {' '.join(t.name for t, _ in missing)}",
        )


def _session(stack: ExitStack, settings: Settings, given: dict[str, Any]) -> DeviceSession | None:
    if not (given["check"] or given["key"] or given["device"]):
        return None
    fleet: Fleet
    if given["device"]:
        fleet = DirectFleet([address(given["device"], "--device")])
    elif given["key"] or given["tracker"]:
        fleet = TrackerFleet(*address(given["tracker"] or settings.tracker, "--tracker"), given["key"] or "")
    else:
        fleet = LocalFleet()
    stack.callback(fleet.close)
    session = fleet.open(0, wait_s=30.0)
    stack.callback(session.close)
    return session


def _build(task: TuningTask, reply: BestReply, out: Path | None, session: DeviceSession | None) -> Built:
    """Replay the trace (or none), build, write, and check on the device if there is one."""
    func = task.func
    if reply.trace is not None:
        func = apply_trace(func, Trace.from_json(reply.trace)).func
    artifact = compile_artifact(func, task.target, name="main")
    measured = None
    if session is not None:
        measured = _check(task, artifact, session)
    path = None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{task.name.replace(':', '_').replace(',', 'x')}.tfa"
        path.write_bytes(artifact.to_bytes())
    return Built(task, reply, artifact, path, measured)


def _check(task: TuningTask, artifact: Artifact, session: DeviceSession) -> MeasureResult:
    reference = compile_artifact(task.func, task.target, name="main")
    request = MeasureRequest(
        artifact=artifact.digest,
        reference=reference.digest,
        options=EvaluatorOptions(number=1, repeat=5, min_repeat_ms=20),
        timeout_s=60.0,
    )
    result = session.measure(request, (artifact, reference))
    if result.failure is not None:
        raise CheckFailedError(
            f"{task.name}: the built kernel fails its check with {result.failure}: {result.text}",
            hint="build it untuned, and report the config's digest so that it can be withdrawn",
        )
    return result


def _print(built: Built) -> None:
    line = f"{built.task.name}: {built.how}"
    if built.measured is not None:
        cost = sorted(built.measured.costs)[len(built.measured.costs) // 2]
        line += f", output checked, {built.task.flops / cost / 1e9:.1f} GFLOP/s"
    if built.path is not None:
        line += f", {built.path}"
    click.echo(line)
    if built.how != "hit":
        for reason in built.reply.explain:
            click.echo(f"  - {reason}")


def _as_json(built: Built) -> dict[str, Any]:
    costs = built.measured.costs if built.measured else ()
    return {
        "kernel": built.task.name,
        "config": built.how,
        "digest": built.reply.digest,
        "explain": list(built.reply.explain),
        "artifact": str(built.path) if built.path else None,
        "artifact_digest": built.artifact.digest,
        "checked": built.measured is not None,
        "flops": built.task.flops,
        "costs_s": list(costs),
    }
