"""Models of the record store as command lines name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from compiler.errors import TunefarmError
from tuner.records.models.facts import Model
from tuner.records.store import RecordStore

DB = click.option("--db", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")

if TYPE_CHECKING:
    _NameType = click.ParamType[str]
else:
    _NameType = click.ParamType


class ModelName(_NameType):
    """The name of a model of the store, or its number; shells complete it."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from tunefarm import settings

        try:
            with RecordStore.open(ctx.params.get("db") or settings.load({}).db) as store:
                names = dict.fromkeys(model.name for model in store.models.page(1000))
        except TunefarmError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def find_model(store: RecordStore, which: str) -> Model:
    """The model of a name, or of a number. Raises RecordNotFound."""
    return store.models.get(int(which)) if which.isdecimal() else store.models.find(which)
