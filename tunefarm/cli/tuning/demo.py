"""`tunefarm demo`: a whole farm on this machine, from tuning to a downstream build.

Its processes are real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from compiler.errors import TunefarmError
from rpc_server.machine.children import PYTHON, environment
from tunefarm.cli import common
from tunefarm.cli.common import Whole
from tunefarm.cli.tables import Fitted
from tuner.number_text import counted, duration
from tuner.records.model import FailureCount, Run
from tuner.records.store import RecordStore

_START_S = 60.0
_EPILOG = "\b\nExamples:\n  tunefarm demo\n  tunefarm demo --serve"


class DemoError(TunefarmError, kind="demo"):
    """A part of the demo did not do its job."""


@click.command(epilog=_EPILOG)
@click.option("--trials", type=Whole(4), default=16, show_default=True, help="Trials for each kernel.")
@click.option("--serve", is_flag=True, help="Leave the farm and the dashboard running until Ctrl-C.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Keep records and logs here.")
def demo(trials: int, serve: bool, folder: Path | None) -> None:
    """Start a tracker, two device servers and the web app on loopback, and tune a small ONNX model.

    One server is killed during the run. A build job then fetches the best configs over HTTP, builds the model with
    them and checks its results.
    """
    console = common.console()
    with ExitStack() as stack:
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="tunefarm-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DemoError(f"cannot make the folder {folder}: {error.strerror}", hint="give another one") from None
        farm = DemoFarm(folder)
        stack.callback(farm.stop)
        began = time.monotonic()
        model = _model(folder)
        farm.start(console)
        run = _tune(farm, model, trials, console)
        report = _downstream(farm, model, console)
        times = _in_turns(farm, model, report["artifact"])
        _print_result(console, farm, run, report, times, time.monotonic() - began)
        if serve:
            console.print(f"The dashboard is at [bold]{farm.web_url}[/bold] — Ctrl-C ends the farm.")
            signal.pause()


@dataclass(frozen=True)
class _Process:
    name: str
    handle: subprocess.Popen[bytes]


class DemoFarm:
    """The demo's processes, each with its log in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = f"sqlite:///{folder / 'tunefarm.db'}"
        self._processes: list[_Process] = []
        self.servers: list[subprocess.Popen[bytes]] = []
        self.cores = sorted(os.sched_getaffinity(0))[:2]
        self.tracker = ""
        self.web_url = ""

    def start(self, console: Console) -> None:
        """One tracker, two servers with a core each, the web app."""
        self._cli(["db", "upgrade", "--db", self.db])
        tracker_port = self._spawn("tracker", ["tracker", "--port", "0"])
        self.tracker = f"127.0.0.1:{tracker_port}"
        console.print(f"tracker on {self.tracker}")
        for i in range(2):
            core = self.cores[i % len(self.cores)]
            args = ["server", "--port", "0", "--tracker", self.tracker, "--key", "cpu", "--cores", str(core)]
            port = self._spawn(f"server-{i}", args)
            self.servers.append(self._processes[-1].handle)
            console.print(f"device server on 127.0.0.1:{port}, core {core}")
        web_port = self._spawn("web", ["web", "--port", "0", "--db", self.db, "--tracker", self.tracker])
        self.web_url = f"http://127.0.0.1:{web_port}"
        console.print(f"dashboard on {self.web_url}")

    def _spawn(self, name: str, args: Sequence[str]) -> int:
        """Start one process and wait for the port it reports."""
        port_file = self.folder / f"{name}.port"
        port_file.unlink(missing_ok=True)
        log = (self.folder / f"{name}.log").open("wb")
        handle = subprocess.Popen(
            [*PYTHON, "-m", "tunefarm", *args, "--port-file", str(port_file)],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment(),
        )
        log.close()
        self._processes.append(_Process(name, handle))
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if handle.poll() is not None:
                break
            if port_file.exists() and (text := port_file.read_text().strip()):
                return int(text.rpartition(":")[2])
            time.sleep(0.02)
        log_text = (self.folder / f"{name}.log").read_text()
        raise DemoError(f"the {name} did not start; its log says:\n{log_text}")

    def _cli(self, args: Sequence[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        command = [*PYTHON, "-m", "tunefarm", *args]
        done = subprocess.run(command, text=True, capture_output=True, env=environment(), **kwargs)
        if done.returncode != 0:
            raise DemoError(f"`tunefarm {' '.join(args)}` ended with {done.returncode}:\n{done.stderr}{done.stdout}")
        return done

    def json(self, args: Sequence[str]) -> Any:
        return json.loads(self._cli([*args, "--json"]).stdout)

    def stop(self) -> None:
        for process in reversed(self._processes):
            if process.handle.poll() is None:
                process.handle.terminate()
        for process in self._processes:
            try:
                process.handle.wait(5)
            except subprocess.TimeoutExpired:
                process.handle.kill()
                process.handle.wait()


# ------------------------------------------------------------------------------------ the acts


def _model(folder: Path) -> Path:
    """A small model on disk. Raises DemoError where onnx is not installed."""
    if find_spec("onnx") is None:
        raise DemoError("the demo's model needs onnx", hint="pip install 'tunefarm[onnx]'")
    from compiler.frontend.onnx.sample import write_sample  # loads onnx

    path = folder / "small.onnx"
    write_sample(path)
    return path


def _tune(farm: DemoFarm, model: Path, trials: int, console: Console) -> Run:
    """Tune the model's kernels; kill the second server once a few trials are done."""
    args = ["tune", str(model), "--trials", str(trials), "--tracker", farm.tracker, "--key", "cpu", "--db", farm.db]
    console.print(f"[bold]$ tunefarm {' '.join(args)}[/bold]", highlight=False, soft_wrap=True)
    tuner = subprocess.Popen([*PYTHON, "-m", "tunefarm", *args], stdin=subprocess.DEVNULL, env=environment())
    victim = farm.servers[1]
    try:
        with RecordStore.open(farm.db) as store:
            while tuner.poll() is None:
                runs = store.runs.newest(limit=1)
                if runs and victim.poll() is None and runs[0].trials >= 2 * trials:
                    victim.send_signal(signal.SIGKILL)
                    console.print(f"[yellow]killed device server {victim.pid} with SIGKILL[/yellow]", highlight=False)
                time.sleep(0.1)
    except BaseException:
        tuner.send_signal(signal.SIGINT)
        tuner.wait(10)
        raise
    if tuner.returncode != 0:
        raise DemoError(f"tuning ended with status {tuner.returncode}")
    if victim.poll() is None:
        raise DemoError("tuning ended before the second server could be killed")
    with RecordStore.open(farm.db) as store:
        return store.runs.newest(limit=1)[0]


def _downstream(farm: DemoFarm, model: Path, console: Console) -> dict[str, Any]:
    """A build job: best configs over HTTP, the model as one file, its results checked on a farm device."""
    args = ["build", str(model), "--api", farm.web_url, "--tracker", farm.tracker, "--key", "cpu"]
    args += ["--require-tuned", "--check", "--out", str(farm.folder / "build")]
    console.print(f"[bold]$ tunefarm {' '.join(args)}[/bold]", highlight=False, soft_wrap=True)
    report: dict[str, Any] = farm.json(args)
    console.print(f"{len(report['kernels'])} kernels tuned, results checked: {report['artifact']}", highlight=False)
    return report


def _in_turns(farm: DemoFarm, model: Path, artifact: str) -> dict[str, float]:
    """Seconds of a run of the tuned model, of the untuned one and in ONNX Runtime.
    They are of one process, on one core."""
    core = str(farm.cores[0])
    command = [*PYTHON, "-m", "tunefarm.cli.tuning.model_turns", str(model), artifact, "--core", core]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoError(f"timing the model failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _print_result(
    console: Console, farm: DemoFarm, run: Run, report: Mapping[str, Any], times: Mapping[str, float], elapsed: float
) -> None:
    with RecordStore.open(farm.db) as store:
        failures = store.runs.failures(run.id)
        best = {config.workload_key: config.cost for config in store.best.page()}
    calls = {kernel["workload_key"]: kernel["calls"] for kernel in report["kernels"]}
    table = Table(title=f"tunefarm demo, {duration(elapsed)} in all")
    table.add_column("kernel")
    for name in ("calls", "as written", "best", "speedup", "trials", "failures"):
        table.add_column(name, justify="right")
    for task in run.tasks:
        assert task.baseline_cost is not None
        cost = best[task.workload.key]  # over all samples of the finals, not the luckiest trial
        table.add_row(
            task.workload.name,
            str(calls[task.workload.key]),
            duration(task.baseline_cost),
            duration(cost),
            f"{task.baseline_cost / cost:.1f}x",
            str(task.trials),
            _kinds(failures, task.id),
        )
    console.print(Fitted(table, ["kernel"]))
    other = f", in ONNX Runtime {duration(times['onnxruntime'])}" if "onnxruntime" in times else ""
    console.print(
        f"a run of the model takes {duration(times['tuned'])}, built without tuning {duration(times['untuned'])}"
        f"{other}; one thread each"
    )
    assert run.finished_at is not None
    tuning = (run.finished_at - run.started_at).total_seconds()
    console.print(
        f"{counted(run.trials, 'trial')} in {duration(tuning)}: {run.trials / tuning:.1f} trials per second; "
        "one of two devices was killed during the run"
    )


def _kinds(failures: Sequence[FailureCount], task_id: int) -> str:
    mine = [f"{f.count} {f.kind}" for f in failures if f.task_id == task_id]
    return ", ".join(mine) or "none"
