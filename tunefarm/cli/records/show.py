"""`tunefarm show` and `tunefarm compare`.

What the best config of a kernel is, and two runs side by side.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import click
from rich.table import Table

from compiler.errors import TunefarmError
from compiler.runtime.files.header import header
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from tunefarm.cli.common import DB, EXIT_NO_CONFIG, JSON, JSON_IN_SECONDS, OBJECTIVE
from tunefarm.cli.records.best_family import refuse_family
from tunefarm.cli.records.build import compiled, function_name
from tunefarm.cli.records.results import print_config
from tunefarm.cli.records.subject import ShownSubject, find_subject, open_store, values_of
from tunefarm.cli.tables import show_table
from tunefarm.cli.tuning.fleet import given_target
from tunefarm.settings import Settings
from tuner.devices.supplies import local_target
from tuner.goals import Goal
from tuner.kernels.kernel import CKernel
from tuner.number_text import duration
from tuner.records.lookup.best import Verdict
from tuner.records.run_pairs import Pair, Side, pairs_of
from tuner.records.store import RecordStore

_SHOW_EPILOG = """\b
Examples:
  tunefarm show matmul:512,512,512:float32
  tunefarm show kernels.toml:scale
  tunefarm show matmul:512,512,512 --python > matmul_512.py
\b
Exit status: 0 a config was found, 1 an error, 2 wrong usage, 3 there is none.
"""
_COMPARE_EPILOG = """\b
Examples:
  tunefarm compare 7 9
  tunefarm compare 7 9 --json
\b
Exit status: 0, 1 an error, 2 wrong usage.
"""

_PROGRAM = '''\
"""{name}, as tunefarm tuned it. Change a number and run this file: it times both, and compares their results.

To have the edited schedule recorded, give this file to `tunefarm tune`: it measures it beside the schedule as it was.
The faster one becomes the workload's best config.
"""

import numpy as np

import tunefarm as tvm
from tuner.kernels.hand_schedules import HandSchedules

_TARGET = {target!r}


def found(sch):
    """The schedule as it was found."""
{found}


def edited(sch):
    """Change this one."""
{found}


schedules = HandSchedules({name!r}, (found, edited))

if __name__ == "__main__":
    func = schedules.task(tvm.target.Target(_TARGET)).func
    rng = np.random.default_rng(0)
    shapes = [(tuple(map(int, b.shape)), b.dtype) for b in func.buffer_map.values()]
    arrays = [rng.integers(-3, 3, shape).astype(dtype) for shape, dtype in shapes]
    results = []
    for schedule in (found, edited):
        sch = tvm.tir.Schedule(func)
        schedule(sch)
        built = tvm.build(sch.func, target=_TARGET)
        given = [tvm.nd.array(array) for array in arrays]
        seconds = built.time_evaluator(built.entry_name, tvm.cpu(), number=10, repeat=5)(*given).median
        print(f"{{schedule.__name__:6}} {{1e6 * seconds:.1f}} us")
        results.append(given[-1].numpy())
    print("same result" if np.allclose(*results, rtol=1e-3, atol=1e-3) else "ANOTHER RESULT")
'''


@click.command(epilog=_SHOW_EPILOG)
@click.argument("workload")
@click.option("--target", default="", help="Target string.  [default: this machine]")
@click.option("--device-class", help="Device class the config must be for.")
@OBJECTIVE
@DB
@click.option("--python", "as_python", is_flag=True, help="Print a program with the schedule, to edit and run.")
@JSON
@click.pass_obj
def show(
    settings: Settings, /, workload: str, target: str, device_class: str | None, objective: str, db: str | None,
    **how: bool,
) -> None:  # fmt: skip
    """Show the best config of WORKLOAD whole: values or schedule, how it is compiled, its C declaration.

    The schedule is shown as Python. WORKLOAD is what `tunefarm best` takes.
    """
    where = given_target(target) if target else Target(local_target())
    refuse_family(workload)
    with open_store(db or settings.db, workload) as store:
        found = find_subject(store, workload, where)
        lookup = store.best.look_up(found.key, str(where), device_class, goal=Goal(objective))
    if (config := lookup.config) is None:
        why = f"`tunefarm best {shlex.quote(workload)}` says why"
        click.echo(f"{found.name} has no config for {where}: {why}", err=True)
        raise click.exceptions.Exit(EXIT_NO_CONFIG)
    if how["as_python"]:
        click.echo(_program(found, where, config.trace), nl=False)
        return
    facts = _facts(found, where, config.trace)
    if how["as_json"]:
        click.echo(json.dumps({**found.json, "target": str(where), "digest": config.digest, **facts}))
        return
    print_config(found, str(where), lookup, config)
    for title, text in (
        ("schedule", facts["schedule"]), ("compiled by", facts["compiler"]), ("in C", facts["declaration"]),
    ):  # fmt: skip
        if text:
            click.echo(f"{title}:\n" + "\n".join(f"  {line}" for line in text.splitlines()))
    if found.item is None and facts["values"]:
        click.echo(f"its file says how it is compiled: tunefarm show FILE:{found.name}")


def _facts(found: ShownSubject, target: Target, trace: str) -> dict[str, Any]:
    """A config's values or its schedule, the compiler's command, and the kernel's declaration."""
    values = values_of(trace)
    facts: dict[str, Any] = {
        "values": values or None,
        "schedule": None if values else Trace.from_json(trace).to_python(),
        "compiler": None,
        "declaration": None,
    }
    if found.item is None or found.task is None:
        return facts
    if isinstance(kernel := found.item.what, CKernel):
        facts["compiler"] = shlex.join(kernel.source_code.command(values, str(target)))
        name = kernel.source_code.entry
    else:
        name = function_name(found.task)
    try:
        text = header(compiled(found.item, replace(found.task, target=target), name, trace))
    except TunefarmError:  # a GPU's kernel, or one that this machine does not make
        return facts
    lines = [line for line in text.splitlines() if f" {name}(" in line]
    return {**facts, "declaration": lines[0] if lines else None}


def _program(found: ShownSubject, target: Target, trace: str) -> str:
    """A program of a schedule. Raises TunefarmError for a kernel that is no named workload."""
    if found.task is None or found.task.spec is None:
        raise TunefarmError(
            f"{found.name} is a kernel of a file, whose schedule stands there",
            hint="without --python, its values are shown",
        )
    lines = Trace.from_json(trace).to_python().splitlines()
    body = "\n".join(f"    {line}" for line in lines)
    return _PROGRAM.format(name=found.name, target=str(target), found=body)


@click.command(epilog=_COMPARE_EPILOG)
@click.argument("first", type=int)
@click.argument("second", type=int)
@DB
@JSON_IN_SECONDS
@click.pass_obj
def compare(settings: Settings, first: int, second: int, db: str | None, as_json: bool) -> None:
    """Compare the results of two runs, kernel by kernel: which was faster, and by how much.

    Times of devices of other classes do not compare, and intervals that overlap are a tie.
    """
    with RecordStore.open(db or settings.db) as store:
        pairs = pairs_of(store, store.runs.get(first), store.runs.get(second))
    if as_json:
        click.echo(json.dumps([_as_json(pair) for pair in pairs]))
        return
    table = Table("kernel", f"run {first}", f"run {second}", "")
    for pair in pairs:
        table.add_row(pair.name, _time(pair.a), _time(pair.b), _verdict(pair))
    show_table(table, "kernel")


def _time(side: Side | None) -> str:
    return duration(side.best.median) + ("" if side.final else " (search)") if side else "-"


def _verdict(pair: Pair) -> str:
    if pair.verdict is None or pair.a is None or pair.b is None:
        return "" if pair.a is None or pair.b is None else "other devices"
    if pair.verdict is Verdict.TIE:
        return "tie"
    return f"{pair.verdict} ({pair.a.best.median / pair.b.best.median:.2f}x)"


def _as_json(pair: Pair) -> dict[str, Any]:
    def side(found: Side | None) -> dict[str, Any] | None:
        if found is None:
            return None
        best = found.best
        return {"cost_s": best.median, "low_s": best.low, "high_s": best.high, "final": found.final,
                "device": found.trial.device, "trial": found.trial.id}  # fmt: skip

    sides = {"first": side(pair.a), "second": side(pair.b)}
    verdict = str(pair.verdict) if pair.verdict else None
    return {"kernel": pair.name, "target": pair.target, **sides, "second_is": verdict}
