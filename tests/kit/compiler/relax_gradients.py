"""Checks of gradients: what the rule of an operator says, against differences of what numpy gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import Call, TensorStructInfo, Tuple, TupleStructInfo, Var, info_of
from compiler.relax.op.core.registry import operator_of

Array = np.ndarray[Any, Any]
_STEP = 1e-6


def check_gradient(
    build: Callable[..., Any], numpy: Callable[..., Any], arrays: Sequence[Array], where: str, directions: int = 2
) -> int:
    """Compare, along random directions, gradients with differences; returns how many arrays have a gradient.

    Arrays of floating point are float64. `numpy(*arrays)` gives what the call `build(*variables)` gives.
    """
    rng = np.random.default_rng(11)
    inputs = [Var(f"x{i}", TensorStructInfo(a.shape, str(a.dtype))) for i, a in enumerate(arrays)]  # type: ignore[arg-type]
    wanted = _results(numpy(*arrays))
    weights = [rng.standard_normal(w.shape) if w.dtype.kind == "f" else np.zeros(w.shape, w.dtype) for w in wanted]
    slopes = _gradients(build, inputs, arrays, weights)
    for var, slope in slopes.items():
        place = inputs.index(var)
        assert slope.shape == arrays[place].shape, f"{where}: the gradient of argument {place} is {slope.shape}"
        assert slope.dtype == arrays[place].dtype, f"{where}: the gradient of argument {place} is {slope.dtype}"
        for _ in range(directions):
            along = rng.standard_normal(slope.shape)
            ends = []
            for sign in (1, -1):
                moved = [a if n != place else a + sign * _STEP * along for n, a in enumerate(arrays)]
                found = _results(numpy(*moved))
                ends.append(sum(float((w * f).sum()) for w, f in zip(weights, found) if f.dtype.kind == "f"))
            numeric = (ends[0] - ends[1]) / (2 * _STEP)
            message = f"{where}: the gradient of argument {place}"
            np.testing.assert_allclose(float((slope * along).sum()), numeric, rtol=2e-4, atol=2e-5, err_msg=message)
    return len(slopes)


def _results(found: Any) -> list[Array]:
    return [np.asarray(item) for item in (found if isinstance(found, list | tuple) else [found])]


def _gradients(
    build: Callable[..., Any], inputs: Sequence[Var], arrays: Sequence[Array], weights: Sequence[Array]
) -> dict[Var, Array]:
    """The gradient of each variable, those of its several uses added up."""
    bb = BlockBuilder()
    seeds = [Var(f"g{i}", TensorStructInfo(w.shape, str(w.dtype))) for i, w in enumerate(weights)]  # type: ignore[arg-type]
    with bb.function("main", [*inputs, *seeds]):
        with bb.dataflow():
            result = bb.emit(build(*inputs))
            call = bb.lookup_binding(result)
            assert isinstance(call, Call)
            several = isinstance(info_of(call), TupleStructInfo)
            grad = Tuple(tuple(seeds)) if several else seeds[0]
            found = operator_of(call.op).gradients(result, call, grad, bb)  # type: ignore[arg-type]
            pairs = [pair for arg, slope in zip(call.args, found) for pair in _pairs(arg, slope)]
            out = bb.emit_output(Tuple(tuple([slope for _, slope in pairs])))
        bb.emit_func_output(out)
    values = run(bb.get(), *arrays, *weights)
    total: dict[Var, Array] = {}
    for (var, _), value in zip(pairs, values):
        total[var] = total[var] + value if var in total else value
    return total


def _pairs(arg: Any, slope: Any) -> list[tuple[Var, Any]]:
    """Variables and their gradients."""
    if slope is None:
        return []
    if isinstance(arg, Tuple):
        return [pair for item, part in zip(arg.fields, slope.fields) for pair in _pairs(item, part)]
    return [(arg, slope)] if isinstance(arg, Var) else []
