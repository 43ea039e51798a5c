"""`tunefarm build --tune-missing`: the web app tunes kernels without a config, and the build goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from compiler.errors import TunefarmError
from tunefarm.cli.common import NotTunedError
from tunefarm.client import Client
from tuner.kernels.files import Item
from tuner.number_text import counted
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec

_POLL_S = 1.0


def tune_missing(
    client: Client, missing: Sequence[tuple[Item, TuningTask]], *, key: str, trials: int, wait: float
) -> None:
    """Have the web app tune kernels for their target, and wait so many seconds for it.

    What is measured stays, whatever happens here. Raises NotTunedError for kernels of files, which the web app cannot
    read, and where the run does not finish.
    """
    if own := [task.name for item, task in missing if not isinstance(item.what, WorkloadSpec)]:
        raise NotTunedError(
            f"the web app tunes kernels by name only, not {', '.join(own)}",
            hint="tune a file's kernels where it is: tunefarm tune FILE",
        )
    tasks = [task for _, task in missing]
    run = client.start_run([task.name for task in tasks], target=str(tasks[0].target), key=key, trials=trials)
    asked = f"{counted(len(tasks), 'kernel')}, {counted(trials, 'trial')} each"
    click.echo(f"run {run.id} of the web app tunes {asked}", err=True)
    deadline = time.monotonic() + wait
    while not run.ended:
        if time.monotonic() > deadline:
            raise NotTunedError(
                f"run {run.id} is {run.state} after {wait:.0f} s, with {run.trials} of {run.budget} trials",
                hint="it goes on; build again later, or wait longer with --tune-wait",
            )
        time.sleep(_POLL_S)
        run = client.run(run.id)
    if run.state != "finished":
        raise TunefarmError(
            f"run {run.id} {run.state.replace('_', ' ')}: {run.message}",
            hint=f"the web app's page /runs/{run.id} has more",
        )
