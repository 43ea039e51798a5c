"""Names and parameters of operators, against TVM's (`tests/data/relax_operators.json`).

Every name is there, or stands in one of the lists below with the reason.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from compiler.relax import op
from compiler.relax.op.core.registry import OPERATORS
from compiler.relax.op.page import page
from tests.kit.places import TESTS

FIELD: dict[str, list[dict[str, str]]] = json.loads((TESTS / "data" / "relax_operators.json").read_text())
KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "args",
    inspect.Parameter.VAR_KEYWORD: "kwargs",
}
_TYPES = "0.20 says sinfo where later versions say ty, and takes tir_vars"
DIFFER = {
    "call_builtin_with_ctx": _TYPES,
    "call_dps_packed": _TYPES,
    "call_inplace_packed": _TYPES,
    "call_pure_packed": _TYPES,
    "call_tir": _TYPES,
    "call_tir_inplace": _TYPES,
    "call_tir_with_grad": _TYPES,
    "invoke_closure": _TYPES,
    "invoke_pure_closure": _TYPES,
    "memory.alloc_tensor": "memory knows the device that it is on",
}
"""Names whose parameters are not those of the list, and why."""
_MESHES = "StructInfo says nothing of device meshes: a graph runs on one machine"
MISSING = {
    "call_py_func": "a graph holds no Python functions", "distributed.annotate_sharding": _MESHES,
    "distributed.call_tir_local_view": _MESHES, "distributed.redistribute": _MESHES,
    "distributed.redistribute_replica_to_shard": _MESHES,
    "register_gradient": "a declaration has its gradient",
}  # fmt: skip
"""Names that are not there, and why."""


def ours(name: str) -> Any:
    """Return what stands under a name of TVM's; None if nothing does."""
    found: Any = op
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def parameters(function: Any) -> list[dict[str, str]]:
    found = []
    for parameter in inspect.signature(function).parameters.values():
        entry = {"name": parameter.name, "kind": KINDS[parameter.kind]}
        if parameter.default is not inspect.Parameter.empty:
            entry["default"] = repr(parameter.default)
        found.append(entry)
    return found


def test_every_name_is_there_or_says_why_not() -> None:
    assert {name for name in FIELD if ours(name) is None} == set(MISSING)
    assert all(len(reason) > 5 for reason in (*MISSING.values(), *DIFFER.values()))


@pytest.mark.parametrize("name", sorted(set(FIELD) - set(MISSING)))
def test_parameters(name: str) -> None:
    assert (parameters(ours(name)) != FIELD[name]) == (name in DIFFER)


def test_functions_build_the_operators_of_their_names() -> None:
    made_of_others = {"linear", "masked_fill", *op.vision.__all__}  # these also without their group
    named = {f"relax.{name}" for name in FIELD if ours(name) is not None and name not in made_of_others}
    assert named - set(OPERATORS) == set()


def test_the_page_of_operators_is_current() -> None:
    """A failure means: run python -m compiler.relax.op.page > docs/relax-operators.md."""
    assert (TESTS.parent / "docs" / "relax-operators.md").read_text(encoding="utf-8") == page()
