"""The report of `tunefarm build`: the outcome of each kernel, as lines or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from compiler.artifact import Artifact
from compiler.codegen.nvptx.ptxas import kernel_resources
from rpc_server.wire.trial_messages import MeasureResult
from tunefarm.cli.common import CheckFailedError
from tunefarm.client import BestReply
from tuner.number_text import counted, duration
from tuner.task import TuningTask

_HOW = {"exact": "hit", "compatible": "near", "nearest": "near", "miss": "untuned"}


@dataclass(frozen=True)
class BuiltItem:
    """One kernel of the build report.
    `name` is its function's, `files` were written; `measured` is None when it was not run, `artifact` when nothing
    was built, since another kernel has no config."""

    task: TuningTask
    name: str
    reply: BestReply
    artifact: Artifact | None
    files: tuple[Path, ...]
    measured: MeasureResult | None

    @property
    def how(self) -> str:
        """hit: tuned for exactly this.
        Near: a compatible config, or a nearby workload's that was adapted, as `reply.explain` says; as written:
        tuned, and nothing faster found; untuned."""
        return "as written" if self.reply.as_written else _HOW[self.reply.match]

    @property
    def failure(self) -> str:
        if self.measured is None or self.measured.failure is None:
            return ""
        return f"{self.measured.failure}: {self.measured.text}"


def show_report(report: Sequence[BuiltItem], as_json: bool) -> None:
    """Print what became of each kernel. Raises CheckFailedError where one failed its check."""
    if as_json:
        click.echo(json.dumps([item_json(built) for built in report]))
    else:
        for built in report:
            print_item(built)
    _complain(report)


def _complain(report: Sequence[BuiltItem]) -> None:
    failed = [b for b in report if b.failure]
    if failed:
        lines = "\n".join(f"    {b.task.name} ({b.how}, config {b.reply.digest}): {b.failure}" for b in failed)
        raise CheckFailedError(
            f"{len(failed)} of {counted(len(report), 'kernel')} failed the check:\n{lines}",
            hint="tune them again on this device class before shipping the build",
        )


def print_item(built: BuiltItem) -> None:
    line = f"{built.task.name}: {built.how}"
    if built.failure:
        line += ", check failed"
    elif built.measured is not None:
        cost = median(built.measured.costs)
        flops = built.task.flops
        line += f", output checked, {f'{flops / cost / 1e9:.1f} GFLOP/s' if flops else duration(cost)}"
    if built.files:
        line += f", {', '.join(map(str, built.files))}"
    click.echo(line)
    for kernel in kernel_resources(built.artifact) if built.artifact else ():
        click.echo(f"  {kernel}")
    if built.how != "hit":
        for reason in built.reply.explain:
            click.echo(f"  - {reason}")


def item_json(built: BuiltItem) -> dict[str, Any]:
    return {
        "kernel": built.task.name,
        "function": built.name,
        "workload_key": built.task.key,
        "config": built.how,
        "digest": built.reply.digest,
        "joules": built.reply.joules,
        "explain": list(built.reply.explain),
        "target": str(built.task.target),
        "artifact": str(built.files[0]) if built.files else None,
        "files": [str(path) for path in built.files],
        "artifact_digest": built.artifact.digest if built.artifact else None,
        "kernels": [asdict(kernel) for kernel in kernel_resources(built.artifact)] if built.artifact else [],
        "checked": built.measured is not None and not built.failure,
        "failure": built.failure or None,
        "flops": built.task.flops,
        "costs_s": list(built.measured.costs) if built.measured else [],
    }
