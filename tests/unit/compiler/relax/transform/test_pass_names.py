"""Names and parameters of passes, against those of Apache TVM (`tests/data/relax_passes.json`); what each pass has:
a picture in its docstring, and a test that compares graphs before and after by structure. The third thing is random
graphs (`tests/property/test_relax_passes_random.py`).

Every name is there, or stands below with the reason.
"""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

import pytest

from compiler.relax.transform.passes import relax_passes
from tests.kit.places import TESTS
from tunefarm.relax import transform

FIELD: dict[str, dict[str, list[str]]] = json.loads((TESTS / "data" / "relax_passes.json").read_text())
_IPC = "it is about memory that processes on NVIDIA GPUs share: no library here reduces through it"
MISSING = {
    "ComputePrimValue": "VMShapeLower computes scalars of dimensions where they are used",
    "IPCAllReduceRewrite": _IPC,
    "LowerGPUIPCAllocStorage": _IPC,
    "SpecializePrimFuncBasedOnCallSite": "it writes memory scopes of devices into kernels: targets here have none",
}
"""Names that are not there, and why."""
DIFFER = {
    "AttachAttrLayoutFreeBuffers": "takes constants_only besides",
    "FoldConstant": "takes what evaluates kernels besides",
    "FuseOps": "takes how many kernels one may hold besides",
    "ToMixedPrecision": "takes dtype besides, for bfloat16",
}
"""Names whose parameters are not those of the list, and why."""


def ours(name: str) -> Any:
    return getattr(transform, name, None)


def test_every_name_is_there_or_says_why_not() -> None:
    assert {name for name in FIELD if ours(name) is None} == set(MISSING)
    assert all(len(reason) > 10 for reason in (*MISSING.values(), *DIFFER.values()))


@pytest.mark.parametrize("name", sorted(set(FIELD) - set(MISSING)))
def test_parameters(name: str) -> None:
    taken = list(inspect.signature(ours(name)).parameters)
    assert (taken != FIELD[name]["takes"]) == (name in DIFFER), taken


# ------------------------------------------------------------------------------- what each pass has

COMPARISONS = {"assert_structural_equal", "becomes", "same", "stays"}
"""Functions by which tests compare graphs' structures; so does `computes`, if it is given `after`."""


def test_every_pass_has_a_picture() -> None:
    without = [title for title, entry in relax_passes().items() if "→" not in (inspect.getdoc(entry.function) or "")]
    assert without == []


def test_every_pass_is_shown_before_and_after() -> None:
    shown: set[str] = set()
    for path in (TESTS / "unit" / "compiler" / "relax").rglob("test_*.py"):
        named = _named(ast.parse(path.read_text(encoding="utf-8")))
        for name in named:
            words = _reached(name, named) if name.startswith("test_") else set()
            shown |= words if words & COMPARISONS else set()
    assert set(relax_passes()) - shown == set()


def _named(tree: ast.Module) -> dict[str, set[str]]:
    """The words of each function, class and value that a file defines, by its name."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = _words(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = _words(node.value)
    return found


def _words(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str() as name):
                found.add(name)
            case ast.Call(func=ast.Name(id="computes"), keywords=keywords) if any(k.arg == "after" for k in keywords):
                found.add("becomes")
    return found


def _reached(name: str, named: dict[str, set[str]]) -> set[str]:
    """The words of a test, and of what the file defines and it uses."""
    words: set[str] = set()
    seen: set[str] = set()
    stack = [name]
    while stack:
        current = stack.pop()
        if current not in seen and current in named:
            seen.add(current)
            words |= named[current]
            stack += named[current]
    return words
