"""Checks of graph operators: what a declaration says of a call, against what its kernel gives and what numpy gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from compiler.driver.build import compile_artifact
from compiler.errors import IRError
from compiler.interp.interpreter import run
from compiler.ir.structural import assert_structural_equal
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Call, StructInfo, TensorStructInfo, Tuple, TupleStructInfo, Var, set_struct_info
from compiler.relax.nodes.dims import proven_equal
from compiler.relax.op.core.layout import Layout, LayoutUse
from compiler.relax.op.core.registry import OPERATORS, RefusedPart
from compiler.relax.te_calls import make_kernel
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.script.entry import from_source
from compiler.tir import nodes as n
from compiler.tir.visit import substitute
from tests.kit.compiler.relax_gradients import check_gradient
from tests.kit.compiler.topi import TOLERANCE, data, numpy_dtype

Array = np.ndarray[Any, Any]
SIZES = ({"n": 3, "m": 5, "k": 4, "j": 2}, {"n": 1, "m": 1, "k": 1, "j": 1}, {"n": 0, "m": 7, "k": 3, "j": 5},
         {"n": 7, "m": 3, "k": 5, "j": 1})  # fmt: skip
"""The sizes that names of dimensions stand for: an ordinary set, ones, with a 0, odd ones."""
WITHOUT_ZERO = (*SIZES[:2], {"n": 2, "m": 7, "k": 3, "j": 5}, SIZES[3])


@dataclass(frozen=True)
class Case:
    """One operator with certain attributes.

    `build(*variables)` makes the call, `numpy(*arrays)` what it gives. `shapes` has a shape for each variable, names
    being sizes; "[...]" around several makes them one list. `dtypes` are those of all variables that `fixed` does not
    name; `values(name, array)` changes arrays before they are used.
    """

    name: str
    build: Callable[..., Any]
    numpy: Callable[..., Any]
    shapes: Sequence[str]
    dtypes: Sequence[str] = ("float32",)
    fixed: dict[int, str] = field(default_factory=dict)
    values: dict[int, Callable[[Array], Array]] = field(default_factory=dict)
    sizes: Sequence[dict[str, int]] = SIZES
    tolerance: float = 0.0
    unlike: Sequence[str] = ()
    """Element types, none of `dtypes`, for which the numpy form gives something else than the operator."""

    def dtype(self, position: int, dtype: str) -> str:
        return self.fixed.get(position, dtype)


def dims_of(shape: str, known: dict[str, Any]) -> list[Any]:
    return [int(name) if name.isdigit() else known[name] for name in shape.split()]


def check(case: Case) -> None:
    """StructInfo, kernel and numpy agree, for each element type, at each set of sizes and with symbolic ones.

    Its text reads back.
    """
    for dtype in case.dtypes:
        symbols = {name: n.Var(name, "int64") for name in ("n", "m", "k", "j")}
        inputs = [
            Var(f"x{i}", TensorStructInfo(dims_of(shape, symbols), case.dtype(i, dtype)))
            for i, shape in enumerate(case.shapes)
        ]
        kernel, infos = _kernel_of(case, inputs)
        check_text(case.build, inputs)
        module = load_artifact(compile_artifact(kernel.func, "llvm", name="main"))
        for sizes in case.sizes:
            _agree(case, kernel, module, infos, symbols, sizes, dtype)
    _check_constants(case)
    _check_layout(case)
    _check_gradient(case)


def check_another(case: Case, dtype: str) -> bool:
    """Run the operator with an element type that `case` does not name, and compare with numpy in float64.

    Returns whether the operator takes such elements; when not, it says so with an error that names them.
    """
    symbols = {name: n.Var(name, "int64") for name in ("n", "m", "k", "j")}
    inputs = [
        Var(f"x{i}", TensorStructInfo(dims_of(shape, symbols), case.dtype(i, dtype)))
        for i, shape in enumerate(case.shapes)
    ]
    try:
        kernel, infos = _kernel_of(case, inputs)
    except IRError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert dtype in refusal
        return False
    module = load_artifact(compile_artifact(kernel.func, "llvm", name="main"))
    in_float64 = replace(case, numpy=lambda *arrays: case.numpy(*map(_wide, arrays)))
    _agree(in_float64, kernel, module, infos, symbols, case.sizes[0], dtype)
    return True


def _wide(values: Array) -> Array:
    return values.astype("float64") if str(values.dtype) in ("float16", "bfloat16", "float32") else values


def check_text(build: Callable[..., Any], inputs: Sequence[Var]) -> None:
    """A function of one call is read from its text as it was."""
    bb = BlockBuilder()
    with bb.function("main", list(inputs)):
        with bb.dataflow():
            result = bb.emit_output(build(*inputs))
        bb.emit_func_output(result)
    module = bb.get()
    text = module.script(show_meta=True)
    again = from_source(text)
    assert_structural_equal(again, module)
    assert again.script(show_meta=True) == text


def _call(case: Case, inputs: Sequence[Var]) -> tuple[Any, Any, StructInfo]:
    call = case.build(*inputs)
    entry = OPERATORS[call.op.name]
    call = entry.normalized(call)
    return entry, call, entry.struct_info(call)


def _kernel_of(case: Case, inputs: Sequence[Var]) -> tuple[Any, list[TensorStructInfo]]:
    entry, call, info = _call(case, inputs)
    assert not isinstance(entry.te, RefusedPart)
    set_struct_info(call, info)
    entry.work(call)
    kernel = make_kernel(entry.te, call.args, dict(call.attrs), entry.short_name)
    infos = list(info.fields) if isinstance(info, TupleStructInfo) else [info]
    assert len(infos) == len(kernel.outputs), case.name
    for known, made in zip(infos, kernel.outputs):
        assert isinstance(known, TensorStructInfo)
        assert known.dtype == made.dtype, f"{case.name}: {known} inferred, {made} made"
        assert known.dims is not None, f"{case.name}: {known} inferred, {made} made"
        assert made.dims is not None
        assert len(known.dims) == len(made.dims), f"{case.name}: {known} inferred, {made} made"
    return kernel, infos


def _value(expr: n.PrimExpr, values: dict[n.Var, int]) -> int:
    """A dimension at given sizes."""
    from compiler.arith.analyzer import Analyzer

    found = Analyzer().simplify(substitute(expr, {v: n.IntImm("int64", size) for v, size in values.items()}))
    assert isinstance(found, n.IntImm), found
    return found.value


def arrays_of(case: Case, sizes: dict[str, int], dtype: str) -> list[Array]:
    made = []
    for i, shape in enumerate(case.shapes):
        values = data(*dims_of(shape, sizes), dtype=case.dtype(i, dtype))
        made.append(np.asarray(case.values[i](values)).astype(values.dtype) if i in case.values else values)
    return made


def _agree(case: Case, kernel: Any, module: Any, infos: Any, symbols: Any, sizes: dict[str, int], dtype: str) -> None:
    inputs = arrays_of(case, sizes, dtype)
    found = case.numpy(*inputs)
    wanted = [np.asarray(w) for w in (found if isinstance(found, list | tuple) else (found,))]
    values = {var: sizes[name] for name, var in symbols.items()}
    for info, want in zip(infos, wanted, strict=True):
        shape = tuple(_value(size, values) for size in info.dims)
        assert shape == want.shape, f"{case.name} at {sizes}: {info} is {shape}, the result {want.shape}"
    outs = [np.zeros(w.shape, numpy_dtype(i.dtype)) for w, i in zip(wanted, infos)]
    scalars = [_value(var, values) for var in kernel.tir_vars]
    held = [array(np.array(a, order="C")) for a in inputs]
    results = [array(o) for o in outs]
    module["main"](*held, *results, *scalars)
    run(kernel.func, *inputs, *outs, *scalars)
    for want, machine, interpreted in zip(wanted, results, outs):
        for got, way in ((machine.numpy(), "compiled"), (interpreted, "interpreted")):
            _close(got, want, case.tolerance, f"{case.name} {way} at {sizes} of {dtype}")


def _close(got: Array, want: Array, tolerance: float, where: str) -> None:
    limit = TOLERANCE.get(str(got.dtype))
    if limit is None:
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=where)
        return
    limit = max(limit, tolerance)
    np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=limit, atol=limit, err_msg=where)


def _check_constants(case: Case) -> None:
    """Check that constant sizes give a constant StructInfo, equal to what the kernel makes."""
    for sizes in case.sizes[:2]:
        inputs = [
            Var(f"x{i}", TensorStructInfo(dims_of(shape, sizes), case.dtype(i, case.dtypes[0])))
            for i, shape in enumerate(case.shapes)
        ]
        kernel, infos = _kernel_of(case, inputs)
        for known, made in zip(infos, kernel.outputs):
            pairs = zip(known.dims or (), made.dims or ())
            assert all(proven_equal(a, b) for a, b in pairs), f"{case.name}: {known} inferred, {made} made"
    _check_unknown(case)


def _check_unknown(case: Case) -> None:
    """Where shapes or element types are not known, the call is still allowed, and nothing wrong is said."""
    known = [case.dtype(i, case.dtypes[0]) for i in range(len(case.shapes))]
    ranks = [len(shape.split()) for shape in case.shapes]
    symbols = {name: n.Var(name, "int64") for name in ("n", "m", "k", "j")}
    exact = [TensorStructInfo(dims_of(s, symbols), d) for s, d in zip(case.shapes, known)]
    _, _, sure = _call(case, [Var(f"x{i}", info) for i, info in enumerate(exact)])
    for with_rank, with_dtype in itertools.product((True, False), (True, False)):
        inputs = [
            Var(f"x{i}", TensorStructInfo(dtype=d if with_dtype else "", ndim=r if with_rank else -1))
            for i, (d, r) in enumerate(zip(known, ranks))
        ]
        _, _, info = _call(case, inputs)
        assert info.is_base_of(sure), f"{case.name}: {info} is said where nothing is known of shapes, {sure} otherwise"


# ------------------------------------------------------------------------- gradients, layouts


def _check_gradient(case: Case) -> None:
    """In float64 the gradients of the rule are what differences say, where there is a rule."""
    if not any("float" in dtype for dtype in case.dtypes):
        return
    arrays = arrays_of(case, case.sizes[0], "float64")
    inputs = [Var(f"x{i}", TensorStructInfo(a.shape, str(a.dtype))) for i, a in enumerate(arrays)]  # type: ignore[arg-type]
    entry = OPERATORS[case.build(*inputs).op.name]
    if not isinstance(entry.gradient, RefusedPart):
        check_gradient(case.build, case.numpy, arrays, case.name)


def _check_layout(case: Case) -> None:
    """Check that a call that its layout rule writes anew, for tensors in other orders, gives the same."""
    rng, sizes, dtype = np.random.default_rng(7), case.sizes[0], case.dtypes[0]
    arrays = arrays_of(case, sizes, dtype)
    inputs = [Var(f"x{i}", TensorStructInfo(a.shape, case.dtype(i, dtype))) for i, a in enumerate(arrays)]  # type: ignore[arg-type]
    entry, call, info = _call(case, inputs)
    if isinstance(entry.layout, RefusedPart):
        return
    set_struct_info(call, info)
    results = len(info.fields) if isinstance(info, TupleStructInfo) else 1
    untouched = entry.layout(LayoutUse(call, tuple(map(_unmoved, call.args)), {}))
    assert untouched.outputs in ((None,) * results, tuple(map(_identity, _fields(info)))), case.name
    orders = {a.ndim: Layout.permuted(rng.permutation(a.ndim).tolist()) for a in arrays}
    found = entry.layout(LayoutUse(call, tuple(_lying(arg, orders) for arg in call.args), {}))
    assert len(found.outputs) == results, f"{case.name}: {found}"
    assert len(found.inputs) == len(call.args), f"{case.name}: {found}"
    given = dict(zip(inputs, arrays))
    moved: dict[Var, Array] = {}
    args = [found.args.get(i, _moved_argument(arg, found.inputs[i], given, moved)) for i, arg in enumerate(call.args)]
    anew = entry.normalized(Call(call.op, tuple(args), {**call.attrs, **found.attrs}))
    set_struct_info(anew, entry.struct_info(anew))
    kernel = make_kernel(entry.te, anew.args, dict(anew.attrs), entry.short_name)
    outs = [np.zeros([int(d) for d in o.dims or ()], numpy_dtype(o.dtype)) for o in kernel.outputs]
    run(kernel.func, *[np.ascontiguousarray(moved[arg]).reshape(moved[arg].shape) for arg in kernel.args], *outs)
    wanted = case.numpy(*arrays)
    for got, want, layout in zip(outs, wanted if isinstance(wanted, list | tuple) else [wanted], found.outputs):
        back = got if layout is None else np.transpose(got, np.argsort([d for d, _ in layout.dims]))
        want = np.asarray(want)
        assert back.shape == want.shape, f"{case.name}: {found} of {orders}"
        _close(back, want, case.tolerance, f"{case.name}: {found} of {orders}")


def _fields(info: StructInfo) -> list[StructInfo]:
    return list(info.fields) if isinstance(info, TupleStructInfo) else [info]


def _identity(info: Any) -> Layout:
    return Layout.identity(info.ndim)


def _unmoved(arg: Any) -> Any:
    return (None,) * len(arg.fields) if isinstance(arg, Tuple) else None


def _lying(arg: Any, orders: dict[int, Layout]) -> Any:
    if isinstance(arg, Tuple):
        return tuple(_lying(item, orders) for item in arg.fields)
    return orders[arg.struct_info.ndim] if isinstance(arg, Var) else None


def _moved_argument(arg: Any, layout: Any, given: dict[Var, Array], moved: dict[Var, Array]) -> Any:
    """The argument for an array that lies as `layout` says."""
    if isinstance(arg, Tuple):
        each = layout if isinstance(layout, tuple) else (None,) * len(arg.fields)
        return Tuple(tuple(_moved_argument(item, lies, given, moved) for item, lies in zip(arg.fields, each)))
    if not isinstance(arg, Var):
        return arg
    array = given[arg]
    if layout is not None:
        array = array.reshape((1,) * (layout.ndim - array.ndim) + array.shape)
        array = array.transpose([d for d, _ in layout.dims])
    made = Var(arg.name_hint, TensorStructInfo(array.shape, arg.struct_info.dtype))  # type: ignore[arg-type,union-attr]
    moved[made] = array
    return made
