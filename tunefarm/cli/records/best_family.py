"""`tunefarm best` of families.

The configs that were chosen for all sizes, and what is run at any of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from compiler.target.target import Target
from tunefarm.cli.common import EXIT_NO_CONFIG, console
from tunefarm.cli.tuning.family import family_table
from tuner.families.build import FamilyMaker, FunctionMaker, record_for, recorded_size
from tuner.families.family import FamilySpec
from tuner.families.record import FamilyRecord
from tuner.families.rule import Explanation
from tuner.families.sizes import FamilyError, parse_shapes
from tuner.families.stored import newest_family
from tuner.kernels.family_build import maker_for
from tuner.kernels.jobs import is_file, names_model, read_job
from tuner.records.db.passwords import shown_command
from tuner.records.parts.families import StoredFamily
from tuner.records.store import RecordStore


def family_of(word: str) -> FamilyMaker | None:
    """The maker of the kernels of the family that a word names; None for a word that names something else.

    Raises FamilyError, SpecError.
    """
    if FamilySpec.is_family(word):
        return FunctionMaker(FamilySpec.parse(word))
    if not is_file(word) or names_model(word):
        return None
    job = read_job([word])
    return maker_for(job.families[0]) if len(job.families) == 1 and not job.items else None


def best_family(
    store: RecordStore, maker: FamilyMaker, word: str, target: Target, device_class: str | None,
    shapes: Sequence[str], as_json: bool, looked_in: Mapping[str, str], flags: Mapping[str, str | None],
) -> None:  # fmt: skip
    """Show the newest record of a family, and what it runs at the sizes that `shapes` list.

    `looked_in` says where else than the target; `flags` are those of a run to tune it.
    """
    sizes = parse_shapes(shapes).of(maker.symbols).sizes if shapes else ()
    kept = newest_family(store, maker.key, str(target), device_class)
    if kept is None:
        _miss(store, maker, word, target, as_json, looked_in, flags)
        raise click.exceptions.Exit(EXIT_NO_CONFIG)
    record = record_for(maker, kept.record)
    told = [record.explain(recorded_size(maker, record, size)) for size in sizes]
    if as_json:
        click.echo(json.dumps({**_named(maker, target), "config": _as_json(kept), "explain": list(map(asdict, told))}))
        return
    console().print(family_table(record))
    where = f" in run {kept.run_id}" if kept.run_id else ""
    click.echo(f"on {record.target}\nmeasured on {kept.device_class}{where}, {kept.created_at:%Y-%m-%d %H:%M} UTC")
    click.echo("other sizes:")
    for test, config in record.rule_lines():
        click.echo(f"  {test}: {config}")
    for one in told:
        _explain(record, one)
    if not told:
        example = ",".join(f"{symbol}=20" for symbol in maker.symbols[:1])
        click.echo(f"what is run at other sizes, and why: --shapes {example}")


def _explain(record: FamilyRecord, told: Explanation) -> None:
    click.echo(f"{record.sizes.text(told.size)}:")
    for reason in told.reasons:
        click.echo(f"  - {reason}")


def _miss(
    store: RecordStore, maker: FamilyMaker, word: str, target: Target, as_json: bool,
    looked_in: Mapping[str, str], flags: Mapping[str, str | None],
) -> None:  # fmt: skip
    if as_json:
        click.echo(json.dumps({**_named(maker, target), "config": None, "explain": []}))
        return
    click.echo(f"{maker.name}: miss")
    for name, text in {"target": str(target), **looked_in}.items():
        click.echo(f"  {name:12}  {text}")
    for other in store.families.all_in_use(name=maker.key):
        click.echo(f"  - it is tuned for {other.target} on {other.device_class}")
    shapes = (
        [w for s in maker.symbols for w in ("--shapes", f"{s}=1,16,128")] if isinstance(maker, FunctionMaker) else []
    )
    words = [text for flag, value in flags.items() if value for text in (flag, value)]
    click.echo(f"tune it: {shown_command(['tunefarm', 'tune', word, *shapes, *words])}")


def _named(maker: FamilyMaker, target: Target) -> dict[str, str]:
    return {"family": maker.name, "family_key": maker.key, "target": str(target)}


def _as_json(kept: StoredFamily) -> dict[str, object]:
    return {
        "id": kept.id,
        "device_class": kept.device_class,
        "run": kept.run_id,
        "created_at": kept.created_at.isoformat(),
        "digest": kept.digest,
        "record": kept.record,
    }


def refuse_family(word: str) -> None:
    """Raise FamilyError for a word that names a family where one kernel is wanted."""
    if (maker := family_of(word)) is not None:
        raise FamilyError(
            f"{maker.name} is a family: one function at many sizes",
            hint=f"its configs: {shown_command(['tunefarm', 'best', word])}",
        )
