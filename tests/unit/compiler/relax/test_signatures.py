"""Names and signatures of the public package, against TVM's (`tests/data/relax_signatures.json`)."""

import enum
import inspect
import json
from typing import Any

import pytest

from tests.kit.places import TESTS
from tunefarm import relax

FIELD: dict[str, Any] = json.loads((TESTS / "data" / "relax_signatures.json").read_text())
KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "args",
    inspect.Parameter.VAR_KEYWORD: "kwargs",
}


def ours(function: Any) -> list[dict[str, str]]:
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        entry = {"name": parameter.name, "kind": KINDS[parameter.kind]}
        if parameter.default is not inspect.Parameter.empty:
            entry["default"] = repr(parameter.default)
        found.append(entry)
    return found


@pytest.mark.parametrize("name", sorted(FIELD))
def test_signature(name: str) -> None:
    field, own = FIELD[name], getattr(relax, name)
    if "parameters" in field and not issubclass(type(own), enum.EnumMeta):
        assert ours(own) == field["parameters"]
    for method, wanted in field.get("methods", {}).items():
        found = inspect.getattr_static(own, method, None) or getattr(own, method)
        assert isinstance(found, staticmethod) == wanted["static"], method
        taken = ours(getattr(own, method))
        names = {entry["name"] for entry in wanted["parameters"]}
        more = [entry for entry in taken if entry["kind"] == "keyword" and entry["name"] not in names]
        assert [entry for entry in taken if entry not in more] == wanted["parameters"], method
        assert all("default" in entry for entry in more), method


def test_submodules_are_there() -> None:
    for name in ("analysis", "binding_rewrite", "block_builder", "expr", "expr_functor", "op", "struct_info", "utils"):
        assert inspect.ismodule(getattr(relax, name))
    for names in (relax.analysis, relax.op, relax.op.nn, relax.expr, relax.struct_info):
        assert all(hasattr(names, name) for name in names.__all__)
