"""Programs that two versions of Apache TVM printed are read, built and run, and agree with the interpreter.

The data is made by `tests/data/tvm_texts/record.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal, structural_equal
from compiler.script.entry import from_source
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.lowering import assert_same, outputs_by_interpreter, outputs_by_machine
from tests.kit.places import TESTS

VERSIONS = ("0_17", "0_27")
KEPT: dict[str, dict[str, str]] = {
    version: json.loads((TESTS / "data" / "tvm_texts" / f"tvm_{version}.json").read_text())["texts"]
    for version in VERSIONS
}
ROWS = 6  # what an extent is that is not known


def arguments(func: PrimFunc) -> list[np.ndarray[Any, Any]]:
    """An array for each parameter: numbers from 0 up, and indices that every table here has."""
    rng = np.random.default_rng(0)
    found = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = tuple(ROWS if (size := ops.as_int(extent)) is None else size for extent in buffer.shape)
        values = rng.random(shape) if buffer.dtype.startswith("float") else rng.integers(0, 5, shape)
        found.append(values.astype(buffer.dtype))
    return found


def function(version: str, name: str) -> PrimFunc:
    mod = from_source(KEPT[version][name])
    assert isinstance(mod, IRModule)
    assert_structural_equal(from_source(mod.script()), mod)
    func = mod["main"]
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("name", sorted({name for texts in KEPT.values() for name in texts}))
def test_a_program_that_tvm_printed_runs(name: str) -> None:
    funcs = [function(version, name) for version in VERSIONS if name in KEPT[version]]
    if len(funcs) == 2 and structural_equal(*funcs):
        funcs.pop()
    for func in funcs:
        args = arguments(func)
        by_interpreter = outputs_by_interpreter(func, args)
        assert any((before != after).any() for before, after in zip(args, by_interpreter))
        assert_same(outputs_by_machine(func, args), by_interpreter, name, tolerance=1e-3)


def test_both_versions_are_there() -> None:
    assert all(len(texts) >= 20 for texts in KEPT.values())
