"""Passes over graphs, checked: what a graph becomes, that it is well formed, and that it computes what it did."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal, structural_hash
from compiler.ir.transform.passes import Pass
from compiler.relax.analysis import assert_well_formed, problems
from compiler.relax.interp import run
from compiler.script.entry import from_source
from compiler.script.saved import load_json, save_json


def as_module(graph: Any) -> IRModule:
    """A module of a function, under the name "main"."""
    return graph if isinstance(graph, IRModule) else IRModule({"main": graph.with_attr("global_symbol", "main")})


def becomes(made: Pass, before: Any, after: Any) -> IRModule:
    """Check that `before` becomes `after`, both functions or modules; gives what it became."""
    found = made(as_module(before))
    assert problems(found) == []
    assert_structural_equal(found, as_module(after))
    return found


def stays(made: Pass, graph: Any) -> None:
    """Check that a pass leaves a graph alone."""
    becomes(made, graph, graph)


def arrays(shapes: Any) -> list[Any]:
    """Arguments: random numbers where a shape is given, any other value as it is, lists as tuples."""
    rng = np.random.default_rng(0)

    def made(item: Any) -> Any:
        if isinstance(item, list):
            return tuple(map(made, item))
        return rng.standard_normal(item).astype("float32") if isinstance(item, tuple) else item

    return [made(item) for item in shapes]


def same_values(got: Any, wanted: Any, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    """Check that arrays, or tuples of arrays, hold nearly the same."""
    if isinstance(wanted, tuple):
        assert isinstance(got, tuple)
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted):
            same_values(a, b, rtol, atol)
        return
    np.testing.assert_allclose(np.asarray(got, "float64"), np.asarray(wanted, "float64"), rtol=rtol, atol=atol)


def computes(made: Pass, before: Any, *shapes: Any, after: Any = None, rtol: float = 1e-4) -> IRModule:
    """Check that `before` computes the same after the pass, and becomes `after` if that is given."""
    found = made(as_module(before)) if after is None else becomes(made, before, after)
    assert problems(found) == []
    args = arrays(shapes)
    same_values(run(found, *args), run(as_module(before), *args), rtol, rtol)
    return found


def same_after_reading(module: IRModule) -> None:
    """Check that a well-formed module is the same after it is read from its text, and from its JSON."""
    assert_well_formed(module)
    text = module.script(show_meta=True)
    again = from_source(text)
    assert_structural_equal(again, module)
    assert structural_hash(again) == structural_hash(module)
    assert again.script(show_meta=True) == text
    assert_structural_equal(load_json(save_json(module)), module)
