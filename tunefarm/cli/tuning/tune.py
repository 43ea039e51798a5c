"""`tunefarm tune`: its flags, and the processes that a run needs.

They take a while to come up, so they are started before this process imports what else it needs (`tune_run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from tunefarm.cli.common import DB_OR_NEW, STRATEGY, Number, Whole
from tunefarm.cli.completion import FileOrName
from tunefarm.cli.importing import ends_quietly
from tunefarm.settings import Settings
from tuner.build.spawning import start_fork_server
from tuner.devices.private_server import PrivateServer
from tuner.engine.scheduling import Policy
from tuner.goals import Goal

_EPILOG = """\b
Examples:
  tunefarm tune matmul:512,512,512:float32
  tunefarm tune matmul:512,512,512 conv2d:1,64,56,56,64,3,3 --trials 200 --key cpu
  tunefarm tune matmul:1024,1024,1024 --device 127.0.0.1:9091 --strategy random --no-warm-start
  tunefarm tune kernels.toml --trials 100
  tunefarm tune model.onnx --trials 64 --dim batch=8
  tunefarm tune mine.py:network --trials 64
  tunefarm tune torchvision:resnet18 --trials 64
  tunefarm tune mine.py:blur --key cpu
  tunefarm tune dense:M,3072,768 --shapes M=1,16,17,64,128,197,512 --portfolio 3
  tunefarm tune --resume 7
\b
Exit status: 0 done, 1 an error or a kernel given up, 2 wrong usage, 130 stopped.
"""

_FIXED = (
    "target", "strategy", "warm_start", "seed", "timeout", "scheduler", "total_trials", "seconds", "task_seconds",
    "device_hours", "objective", "early_stopping", "shapes", "traffic", "portfolio", "dims",
)  # fmt: skip


@click.command(epilog=_EPILOG)
@click.argument("workloads", nargs=-1, type=FileOrName(), metavar="SPEC...")
@click.option("--trials", type=Whole(1), help="Trials for each workload.  [default: 64]")
@click.option("--target", help="Target to build for.  [default: what the first device reports]")
@click.option("--key", help="Lease devices that match this key or expression from the tracker.")
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting, 127.0.0.1:9190]")
@click.option("--device", "devices", multiple=True, metavar="HOST:PORT", help="Use this server; may be repeated.")
@DB_OR_NEW
@click.option("--strategy", "--search", "strategy", type=STRATEGY, help="How.  [default: evolutionary]")
@click.option(
    "--warm-start/--no-warm-start", default=None, help="Begin with configs of similar workloads.  [default: begin]"
)
@click.option("--seed", type=int, help="Seed of search and of the kernels' data.  [default: 0]")
@click.option("--total-trials", type=Whole(1), help="Trials of all workloads together.")
@click.option("--time", "seconds", type=Number(0, min_open=True), help="Seconds the search may take.")
@click.option(
    "--task-time", "task_seconds", type=Number(0, min_open=True), help="Seconds of it each workload may have."
)
@click.option("--device-hours", type=Number(0, min_open=True), help="Hours that all its devices together may be held.")
@click.option(
    "--priority", type=Whole(-1000, 1000), default=1, show_default=True, help="Higher ones get devices first."
)
@click.option(
    "--objective", type=click.Choice([str(goal) for goal in Goal]), help="Quantity to minimise.  [default: time]"
)
@click.option("--early-stopping", type=Whole(1), help="End a workload after this many trials without improvement.")
@click.option(
    "--scheduler",
    type=click.Choice([str(policy) for policy in Policy]),
    help="How to choose the next workload.  [default: gradient]",
)
@click.option(
    "--shapes", multiple=True, metavar="M=1,16,128", help="The sizes of a SPEC with a symbol; may be repeated."
)
@click.option("--traffic", metavar="FILE.csv", help="Calls of each of those sizes: columns M, count.")
@click.option("--portfolio", type=int, help="Configs to choose for all of those sizes together.  [default: 3]")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of a model's symbolic dimension.")
@click.option("--builders", metavar="N|dask+tls://HOST:PORT", help="Build processes, or a Dask cluster.  [default: 2]")
@click.option("--timeout", type=Number(0, min_open=True), help="Seconds a candidate may run.  [default: 10]")
@click.option("--resume", type=int, metavar="RUN", help="Continue an interrupted run; --trials may raise its budget.")
@click.option("--if-queued", is_flag=True, hidden=True, help="With --resume: only a run that waits to be begun.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the result as JSON on stdout, and lines of JSON of its progress on stderr.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_obj
def tune(settings: Settings, /, workloads: tuple[str, ...], **given: Any) -> None:
    """Tune each SPEC: search for its fastest schedule and record every trial.

    A SPEC is a workload: an operator, its sizes and a dtype, such as matmul:512,512,512:float32. Or it is a TOML or
    Python file of kernels of your own, FILE:NAME for one of them. Or it is a model whose kernels are tuned: FILE.onnx,
    FILE.pt2, FILE.py:NAME or torchvision:NAME. A workload with a name for a size (dense:M,3072,768) is tuned for all
    its --shapes together. Without --key or --device a private server on this machine measures. Ctrl-C keeps what was
    measured; --resume goes on.
    """
    _check_usage(workloads, given)
    with _started(given) as server:
        with ends_quietly():
            from tunefarm.cli.tuning.tune_run import run
        run(settings, workloads, given, server)


@contextmanager
def _started(given: dict[str, Any]) -> Iterator[PrivateServer | None]:
    """The process that build workers are forked from, and the private server if one will measure.
    It ends with this."""
    if not (given["builders"] or "").startswith("dask"):
        start_fork_server()
    if given["devices"] or given["key"] or given["tracker"]:
        yield None
        return
    server = PrivateServer(_gpu(given["target"]))
    try:
        yield server
    finally:
        server.terminate()


def _gpu(target: str | None) -> str:
    """Which GPU a private server lends: the first, where the target is one."""
    if not target:
        return ""
    from compiler.target.options import known_kind
    from compiler.target.target import Target

    return "0" if known_kind(Target(target).kind).is_lent_by_number else ""


def _check_usage(workloads: Sequence[str], given: dict[str, Any]) -> None:
    if given["resume"] is None:
        if not workloads:
            raise click.UsageError("give workloads to tune, for example matmul:512,512,512, a file, or --resume RUN")
        return
    if workloads:
        raise click.UsageError("a resumed run has its workloads already")
    if fixed := [name for name in _FIXED if given[name] not in (None, ())]:
        raise click.UsageError(f"a resumed run keeps its {fixed[0].replace('_', ' ')}")
