"""The outcome of a tuned family: its record in the store, and a table of sizes and picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click
from rich import box
from rich.table import Table
from rich.text import Text

from tuner.engine.progress import Snapshot
from tuner.families.family import family_key, spec_from_json
from tuner.families.library import library_times
from tuner.families.plan import FamilySearch, finals_of
from tuner.families.record import FamilyRecord
from tuner.families.sizes import FamilyError
from tuner.number_text import counted, duration
from tuner.records.parts.families import NewFamily
from tuner.records.store import RecordStore


def keep_families(
    store: RecordStore, families: Sequence[FamilySearch], snapshot: Snapshot, is_here: bool = False
) -> tuple[FamilyRecord, ...]:
    """Choose each family's portfolio and rule, and write them to the store.

    A family of which no config works is left out. The families' sizes are the last of the run's tasks, in order.
    `is_here`: they were measured on this machine, so a library's times here are of use beside them.
    """
    found = []
    finals = finals_of(store, snapshot.run_id) if families else {}
    at = len(snapshot.tasks) - sum(len(family.searches) for family in families)
    for family in families:
        tasks = snapshot.tasks[at : at + len(family.searches)]
        at += len(tasks)
        family.settle(finals)
        try:
            record = family.record([task.untuned_cost for task in tasks], sum(task.done for task in tasks))
        except FamilyError as error:
            click.echo(f"{family.name}: {error.message}", err=True)
            continue
        if is_here and ("op" in record.what or "function" in record.what):
            record = replace(record, library=library_times(spec_from_json(record.what), record.sizes))
        device_class = next((t.device_class for t in store.trials.all(snapshot.run_id) if t.device_class), "")
        new = NewFamily(
            key=family_key(record.what), name=record.name, target=record.target, device_class=device_class,
            run_id=snapshot.run_id, digest=record.digest, loss=record.loss, record=record.to_json(),
        )  # fmt: skip
        store.families.add(new)
        found.append(record)
    return tuple(found)


def family_table(record: FamilyRecord) -> Table:
    """A row a size: its share of the traffic, the pick, its time, and how far that is from the best there."""
    made = f"{counted(len(record.configs), 'config')} for {counted(len(record.sizes.sizes), 'size')}"
    table = Table(title=f"{record.name}: {made}", box=box.SIMPLE)
    table.add_column("size", no_wrap=True)
    table.add_column("traffic", justify="right")
    table.add_column("config", overflow="fold")
    for name in ("time", "over best", *record.library):
        table.add_column(name, justify="right", no_wrap=True)
    for at, size in enumerate(record.sizes.sizes):
        pick = record.rule.known[size]
        time = record.seconds[pick][at] if pick >= 0 else record.untuned[at]
        best = record.best[at]
        over = f"{100 * (time / best - 1):.1f} %" if time is not None and best is not None else "–"
        config = str(record.configs[pick]) if pick >= 0 else "the general kernel"
        share = record.sizes.share_text(at)
        libraries = [duration(times[at] or None) for times in record.library.values()]
        table.add_row(record.sizes.text(size), share, Text(config), duration(time or None), over, *libraries)
    exact = "no other choice is better" if record.exact else "chosen greedily, with swaps"
    mean = "geometric mean, by traffic" if record.sizes.is_weighted else "geometric mean"
    table.caption = Text(f"{100 * (record.loss - 1):.1f} % over each size's best ({mean}); {exact}")
    table.caption_justify = "left"
    return table
