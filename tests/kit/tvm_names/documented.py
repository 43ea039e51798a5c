"""The signatures that Apache TVM's documents give (`tests/data/documented_signatures.txt`), and those here.

A line is `name(parameters)`. After ` + ` it has what is more here: parameters by name only, or a default for one that
has none in the documents.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any, NamedTuple

import tunefarm
from tests.kit.places import TESTS

_KINDS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class Documented(NamedTuple):
    """A name, its parameters, and those that are more here."""

    name: str
    parameters: str
    more: str


def documented() -> list[Documented]:
    """The lines of the data file."""
    found = []
    for line in (TESTS / "data" / "documented_signatures.txt").read_text().splitlines():
        call, _, more = line.partition(" + ")
        name, _, parameters = call.partition("(")
        found.append(Documented(name, parameters.removesuffix(")"), more))
    return found


def expected(row: Documented) -> str:
    """The parameters that the name has here: the documented ones, then those by name only, then `**` ones."""
    more = [part for part in row.more.split(", ") if part]
    given = [part for part in row.parameters.split(", ") if part]
    defaults = {part.partition("=")[0]: part for part in more if not part.startswith("*") and "*" not in more}
    kept = [defaults.get(part, part) for part in given]
    return ", ".join(kept + [part for part in more if part not in kept])


def parameters(name: str) -> str:
    """The parameters that a name takes here, with their defaults, without `self`."""
    shown: list[str] = []
    for parameter in inspect.signature(_named(name)).parameters.values():
        if parameter.name == "self":
            continue
        by_name = parameter.kind is parameter.KEYWORD_ONLY
        if by_name and not any(part.startswith("*") for part in shown):
            shown.append("*")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        only = "/" if parameter.kind is parameter.POSITIONAL_ONLY else ""
        shown.append(_KINDS.get(parameter.kind, "") + parameter.name + default + only)
    return ", ".join(shown)


def _named(path: str) -> Any:
    found: Any = tunefarm
    done = "tunefarm"
    for part in path.split("."):
        done += f".{part}"
        found = getattr(found, part, None) or importlib.import_module(done)
    return found
