"""Checks of topi operators: one build with symbolic sizes, run at several, interpreted and compiled, against numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.driver.build import compile_artifact
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.te.operation import placeholder, size_var
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor
from compiler.tir.nodes import PrimFunc

Array = np.ndarray[Any, Any]
Make = Callable[..., Any]
RNG = np.random.default_rng(0)
INTERPRETED = 3000  # elements; more take the interpreter long
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10}
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*FLOATS, "int8", "uint8", "int32", "int64", "bool")


def numpy_dtype(name: str) -> Any:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def data(*shape: int, dtype: str = "float32", low: int = -9, high: int = 9, rng: Any = RNG) -> Array:
    """Random values: normal floats, integers from `low` to below `high`, coin flips."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(max(low, 0) if dtype.startswith("uint") else low, high, shape).astype(dtype)
    return rng.standard_normal(shape).astype(numpy_dtype(dtype))


def distinct(*shape: int, dtype: str = "float32", rng: Any = RNG) -> Array:
    """Numbers of which no two are equal."""
    count = int(np.prod(shape))
    return rng.permutation(count).reshape(shape).astype(numpy_dtype(dtype))


def verify(
    make: Make, reference: Callable[..., Any], shapes: Sequence[Sequence[int | str]], *cases: Sequence[Array],
    tolerance: float | None = None, constant: bool = True,
) -> None:  # fmt: skip
    """`make` of tensors of `shapes`, whose names are symbolic sizes, gives `reference` in each case.

    One build serves all cases; with `constant` the last case is built once more with its own sizes.
    """
    sizes: dict[str, Any] = {}
    inputs = [
        placeholder([sizes.setdefault(d, size_var(d, "int64")) if isinstance(d, str) else d for d in shape],
                    str(a.dtype), f"X{i}")
        for i, (shape, a) in enumerate(zip(shapes, cases[0], strict=True))
    ]  # fmt: skip
    _agree(_func(make, inputs), reference, cases, tolerance, unlowered=True)
    if constant and sizes:
        fixed = [placeholder(a.shape, str(a.dtype), f"X{i}") for i, a in enumerate(cases[-1])]
        _agree(_func(make, fixed), reference, cases[-1:], tolerance, unlowered=False)


def _func(make: Make, inputs: Sequence[Tensor]) -> PrimFunc:
    made = make(*inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    return create_prim_func([*inputs, *outputs])


def _agree(
    func: PrimFunc, reference: Any, cases: Sequence[Sequence[Array]], tolerance: float | None, unlowered: bool
) -> None:
    module = load_artifact(compile_artifact(func, "llvm", name="main"))
    count = len(cases[0])
    dtypes = [func.buffer_map[p].dtype for p in func.params[count:]]
    for arrays in cases:
        found = reference(*arrays)
        wanted = [np.asarray(w) for w in (found if isinstance(found, tuple | list) else (found,))]
        assert len(wanted) == len(dtypes)
        outs = [array(np.zeros(w.shape, numpy_dtype(d))) for w, d in zip(wanted, dtypes)]
        module["main"](*(array(np.array(a, order="C")) for a in arrays), *outs)
        for out, want in zip(outs, wanted):
            _close(out.numpy(), want, tolerance, f"compiled at {[a.shape for a in arrays]}")
        if unlowered and sum(a.size for a in [*arrays, *wanted]) <= INTERPRETED:
            held = [np.zeros(w.shape, numpy_dtype(d)) for w, d in zip(wanted, dtypes)]
            run(func, *(np.array(a, order="C") for a in arrays), *held)
            for got, want in zip(held, wanted):
                _close(got, want, tolerance, f"interpreted at {[a.shape for a in arrays]}")


def _close(got: Array, want: Array, tolerance: float | None, where: str) -> None:
    name = str(got.dtype)
    if name not in TOLERANCE:
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=where)
        return
    limit = TOLERANCE[name] if tolerance is None else max(tolerance, TOLERANCE[name])
    wide = "float64"
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=limit, atol=limit, err_msg=where)


def windows(x: Array, sizes, strides, dilation, padding, filler: float) -> Array:
    """(N, C, out..., taps...) of NC... data in float64."""
    rank = x.ndim - 2
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:])], constant_values=filler)
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilation)]
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, x.ndim)))
    steps = tuple(slice(None, None, s) for s in strides), tuple(slice(None, None, d) for d in dilation)
    return seen[(slice(None), slice(None), *steps[0], *steps[1])]
