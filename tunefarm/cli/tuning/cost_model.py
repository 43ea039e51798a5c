"""`tunefarm cost-model`: the cost models that searches go by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tunefarm.cli.common import DB, FILE, JSON, CommandGroup, Whole
from tunefarm.cli.tables import show_table
from tunefarm.settings import Settings
from tuner.errors import TuningError
from tuner.model import dataset, library
from tuner.model.errors import ModelError
from tuner.model.training import TrainingOptions, train
from tuner.records.parts.cost_models import NewCostModel, StoredCostModel
from tuner.records.store import RecordStore

_MOST_FILE = 8 << 20


_EPILOG = """\b
Examples:
  tunefarm cost-model train
  tunefarm cost-model list
  tunefarm cost-model export 3 model.json.gz
"""


@click.group(cls=CommandGroup, epilog=_EPILOG)
def cost_model() -> None:
    """Train, list and move the models that say which candidates promise most.

    A search takes the newest model of its target's family from the record store, else the one that comes with tunefarm.
    """


_TRAIN_EPILOG = """\b
Examples:
  tunefarm cost-model train
  tunefarm cost-model train --family llvm-x86_64-512
"""


@cost_model.command("train", epilog=_TRAIN_EPILOG)
@DB
@click.option("--family", help="Target family, such as llvm-x86_64-256.  [default: every one in the store]")
@click.option("--trees", type=Whole(1, 1000), default=80, show_default=True)
@click.option("--threads", type=Whole(1), default=1, show_default=True, help="Threads to train with.")
@JSON
@click.pass_obj
def train_command(
    settings: Settings, db: str | None, family: str | None, trees: int, threads: int, as_json: bool
) -> None:
    """Train a model for a target family on all that was measured on it, and keep it in the store.

    Printed is how well models rank workloads that they were not trained on.
    """
    options = TrainingOptions(trees=trees, threads=threads)
    with RecordStore.open(db or settings.db) as store:
        chosen = (family,) if family else dataset.families(store)
        if not chosen:
            raise ModelError("the store has no measured candidates to learn from", hint="tunefarm tune WORKLOAD")
        made = [_trained(store, name, options) for name in chosen]
    if as_json:
        click.echo(json.dumps([_as_json(m) for m in made]))
        return
    for each in made:
        click.echo(f"model {each.version} of {each.target_family}: {_learnt(each)}")
        _show_accuracy(each)


def _trained(store: RecordStore, family: str, options: TrainingOptions) -> StoredCostModel:
    data = dataset.from_store(store, family)
    if data.left_out:
        click.echo(f"{family}: {data.left_out} candidates are left out: the features do not describe them", err=True)
    return store.cost_models.add(library.pack(family, data.groups, train(data.groups, options)))


@cost_model.command("list", epilog="\b\nExample:\n  tunefarm cost-model list --json")
@DB
@JSON
@click.pass_obj
def list_command(settings: Settings, db: str | None, as_json: bool) -> None:
    """List the store's models, newest first, and those that come with tunefarm."""
    with RecordStore.open(db or settings.db) as store:
        found = store.cost_models.newest()
    shipped = [m for m in map(library.shipped, library.shipped_families()) if m is not None]
    if as_json:
        click.echo(json.dumps([_as_json(m) for m in (*found, *shipped)]))
        return
    table = Table("model", "target family", "version", "trained (UTC)", "candidates", "workloads", "spearman", "recall")
    for each in (*found, *shipped):
        stored = each if isinstance(each, StoredCostModel) else None
        table.add_row(
            str(stored.id) if stored else "shipped", each.target_family, str(stored.version) if stored else "–",
            f"{stored.created_at:%Y-%m-%d %H:%M}" if stored else "–", str(each.trained_on.get("candidates", "?")),
            str(len(each.trained_on.get("workloads", ()))), _number(each.rank_accuracy, "spearman"),
            _number(each.rank_accuracy, "recall"),
        )  # fmt: skip
    show_table(table, "target family")


_SHOW_EPILOG = """\b
Examples:
  tunefarm cost-model show 3
  tunefarm cost-model show llvm-x86_64-256
"""


@cost_model.command("show", epilog=_SHOW_EPILOG)
@click.argument("which", metavar="MODEL")
@DB
@JSON
@click.pass_obj
def show(settings: Settings, which: str, db: str | None, as_json: bool) -> None:
    """Show a model: its number in the store, or the family of one that comes with tunefarm."""
    found = _find(settings, which, db)
    if as_json:
        click.echo(json.dumps(_as_json(found)))
        return
    click.echo(f"{found.target_family}, feature version {found.feature_version}: {_learnt(found)}")
    _show_accuracy(found)


@cost_model.command("export", epilog="\b\nExample:\n  tunefarm cost-model export 3 model.json.gz")
@click.argument("which", metavar="MODEL")
@click.argument("file", type=FILE)
@DB
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_obj
def export(settings: Settings, which: str, file: Path, db: str | None, force: bool) -> None:
    """Write a model to FILE, for another store."""
    if file.exists() and not force:
        raise TuningError(f"{file} exists", hint="--force replaces it")
    file.write_bytes(library.to_file(_find(settings, which, db)))
    click.echo(f"model {which} written to {file}", err=True)


@cost_model.command("import", epilog="\b\nExample:\n  tunefarm cost-model import model.json.gz")
@click.argument("file", type=FILE)
@DB
@click.pass_obj
def import_command(settings: Settings, file: Path, db: str | None) -> None:
    """Keep the model of FILE in the store, as the newest of its family.
    It is checked first, and runs no code."""
    if not file.is_file():
        raise ModelError(f"there is no file {file}")
    if file.stat().st_size > _MOST_FILE:
        raise ModelError(f"{file} is larger than {_MOST_FILE >> 20} MiB")
    try:
        new = library.from_file(file.read_bytes())
    except ModelError as error:
        raise ModelError(f"{file}: {error.message}", hint=error.hint) from None
    with RecordStore.open(db or settings.db, create=True) as store:
        made = store.cost_models.add(new)
    click.echo(f"model {made.id}: version {made.version} of {made.target_family}", err=True)


# -------------------------------------------------------------------------------------- output


def _find(settings: Settings, which: str, db: str | None) -> NewCostModel:
    if not which.isdecimal():
        found = library.shipped(which) if which in library.shipped_families() else None
        if found is None:
            known = ", ".join(library.shipped_families()) or "none"
            hint = f"a number of `tunefarm cost-model list`, or of: {known}"
            raise ModelError(f"no model is called {which!r}", hint=hint)
        return found
    with RecordStore.open(db or settings.db) as store:
        return store.cost_models.get(int(which))


def _learnt(model: NewCostModel) -> str:
    about = model.trained_on
    return f"learnt from {about.get('candidates', '?')} candidates of {len(about.get('workloads', ()))} workloads"


def _number(quality: Any, name: str) -> str:
    value = quality.get(name) if isinstance(quality, Mapping) else None  # a file's word is not taken for it
    return f"{value:.2f}" if isinstance(value, float | int) else "–"


def _show_accuracy(model: NewCostModel) -> None:
    by_workload = model.rank_accuracy.get("by_workload")
    if not isinstance(by_workload, dict) or not by_workload:
        click.echo("not judged: that takes at least two workloads")
        return
    table = Table("held-out workload", "spearman", "NDCG", "recall", "found")
    rows = [*by_workload.items(), ("mean", model.rank_accuracy)]
    for name, quality in rows:
        table.add_row(str(name), *(_number(quality, column) for column in ("spearman", "ndcg", "recall", "found")))
    show_table(table, "held-out workload")


def _as_json(model: NewCostModel) -> dict[str, Any]:
    stored = model if isinstance(model, StoredCostModel) else None
    return {
        "id": stored.id if stored else None,
        "target_family": model.target_family,
        "version": stored.version if stored else None,
        "feature_version": model.feature_version,
        "digest": stored.digest if stored else None,
        "trained_on": dict(model.trained_on),
        "rank_accuracy": dict(model.rank_accuracy),
    }
