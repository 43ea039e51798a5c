"""Models of the record store as command lines name them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tunefarm import settings
from tunefarm.cli.completion import CompletedText
from tuner.records.model_store.facts import Model
from tuner.records.store import RecordStore


class ModelName(CompletedText):
    """The name of a model of the store, or its number; shells complete it."""

    name = "model"

    def known(self, ctx: click.Context) -> Iterator[str]:
        with RecordStore.open(ctx.params.get("db") or settings.load({}).db) as store:
            yield from [model.name for model in store.models.page(1000)]


def find_model(store: RecordStore, which: str) -> Model:
    """The model of a name, or of a number. Raises RecordNotFound."""
    return store.models.get(int(which)) if which.isdecimal() else store.models.find(which)
