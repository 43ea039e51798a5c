"""Running graph functions on numpy arrays: the oracle of passes and of the virtual machine.

Operators run through their te forms and the interpreter of TensorIR. Arrays are numpy's, tuples are tuples, shapes
tuples of ints, scalars numbers. Every array that enters a function or passes a match_cast is checked against its
StructInfo. So is every value that an operator gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError, LoweringError
from compiler.interp.interpreter import AssertionFailed
from compiler.interp.interpreter import run as run_prim_func
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes.dims import int64, shape_text, simplified, variables
from compiler.relax.op.core.registry import Operator, RefusedPart, operator_of
from compiler.relax.te_calls import make_kernel
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.registry import get_global_func
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import substitute

Array = npt.NDArray[Any]
Value = Any
"""An array, a tuple of values, a shape (tuple of ints), a number, text or a function."""


def run(program: IRModule | r.Function, *args: Any, func: str = "main") -> Value:
    """Return the value of a function, or of the function `func` of a module, for its arguments.

    These are arrays, numbers and tuples of them. Raises ArgumentError where an argument does not fit, AssertionFailed
    where an assert_op does not hold, and LoweringError for what cannot be run here.
    """
    machine = Interpreter(program if isinstance(program, IRModule) else None)
    target = machine.function(func) if isinstance(program, IRModule) else program
    return machine.call(target, [_taken(arg) for arg in args])


class Interpreter:
    """Runs the functions of a module.
    Kernels made from te forms are cached by operator and argument shapes."""

    def __init__(self, module: IRModule | None = None, kernels: dict[tuple[Any, ...], Any] | None = None) -> None:
        """Run functions of `module`.
        Interpreters that are given the same dictionary of `kernels` share it."""
        self._module = module
        self._kernels: dict[tuple[Any, ...], Any] = {} if kernels is None else kernels

    def function(self, name: str) -> r.Function:
        """The graph function `name` of the module."""
        found = None if self._module is None else self._module[name]
        if not isinstance(found, r.Function):
            raise ArgumentError(f"{name} is a {type(found).__name__}, no graph function")
        return found

    def call(self, func: r.Function, args: Sequence[Value], outer: _Frame | None = None) -> Value:
        """The value of `func` for `args`."""
        if len(args) != len(func.params):
            raise ArgumentError(f"the function takes {len(func.params)} arguments, got {len(args)}")
        if func.body is None:
            raise LoweringError("the function has no body")
        frame = _Frame(self, outer)
        own = {var for param in func.params for var in _symbols(param.struct_info)}
        frame.symbols = {var: value for var, value in frame.symbols.items() if var not in own}
        for whole in (True, False):  # dimensions that stand alone first: others follow from them
            for param, arg in zip(func.params, args):
                frame.bind(param.struct_info, arg, f"the argument {param.name_hint}", learn=whole)
        frame.values.update(zip(func.params, args))
        return frame.sequence(func.body)

    def kernel(self, operator: Operator, args: Sequence[Value], attrs: Mapping[str, Any]) -> Any:
        """The kernel of an operator for arguments of these shapes."""
        key = (operator.name, repr(dict(attrs)), tuple(map(_signature, args)))
        found = self._kernels.get(key)
        if found is None:
            exprs = [_stand_in(arg) for arg in args]
            found = self._kernels[key] = make_kernel(operator.te, exprs, attrs, operator.short_name)  # type: ignore[arg-type]
        return found

    def run_kernel(self, func: n.PrimFunc, *args: Any) -> None:
        """Run a kernel, which writes its results into arrays among `args`."""
        run_prim_func(func, *args)

    def global_function(self, gvar: GlobalVar) -> Any:
        """A function of the module."""
        if self._module is None or gvar not in self._module:
            raise LoweringError(f"the function {gvar.name_hint} is called, but there is no module that has it")
        return self._module[gvar]


class _Closure:
    """A local function, with the values around it."""

    def __init__(self, func: r.Function, frame: _Frame) -> None:
        self.func = func
        self.frame = frame


class _Frame:
    """Values of the variables and dimensions of a function that runs."""

    def __init__(self, machine: Interpreter, outer: _Frame | None = None) -> None:
        self._machine = machine
        self.values: dict[r.Var, Value] = {} if outer is None else dict(outer.values)
        self.symbols: dict[n.Var, int] = {} if outer is None else dict(outer.symbols)

    # ---------------------------------------------------------------------------- structure

    def sequence(self, seq: r.SeqExpr) -> Value:
        for block in seq.blocks:
            for binding in block.bindings:
                value = self.value(binding.value)
                if isinstance(value, _Closure):
                    value.frame.values[binding.var] = value  # it may call itself
                name = f"the value of {binding.var.name_hint}"
                if isinstance(binding, r.MatchCast):
                    self.bind(binding.struct_info, value, name, learn=True)
                    self.bind(binding.struct_info, value, name)
                elif binding.var.struct_info_ is not None:
                    self.bind(binding.var.struct_info_, value, name)
                self.values[binding.var] = value
        return self.value(seq.body)

    def value(self, expr: RelaxExpr) -> Value:
        """The value of an expression."""
        match expr:
            case r.Var():
                if expr not in self.values:
                    raise LoweringError(f"the variable {expr.name_hint} has no value here")
                return self.values[expr]
            case r.Constant():
                return expr.array
            case r.Call():
                return self._call(expr)
            case r.Tuple():
                return tuple([self.value(item) for item in expr.fields])
            case r.TupleGetItem():
                return self.value(expr.tuple_value)[expr.index]
            case r.ShapeExpr():
                return tuple([self.scalar(size) for size in expr.values])
            case r.PrimValue():
                return self.scalar(expr.value)
            case r.StringImm() | r.DataTypeImm():
                return expr.value
            case r.If():
                chosen = expr.true_branch if bool(np.asarray(self.value(expr.cond))) else expr.false_branch
                inner = _Frame(self._machine, self)
                return inner.sequence(chosen)
            case r.SeqExpr():
                return _Frame(self._machine, self).sequence(expr)
            case r.Function():
                return _Closure(expr, _Frame(self._machine, self))
            case r.ExternFunc():
                return get_global_func(expr.global_symbol)
            case GlobalVar():
                return self._machine.global_function(expr)
        raise LoweringError(f"a {type(expr).__name__} has no value")

    def scalar(self, expr: PrimExpr) -> Any:
        """The value of a scalar expression."""
        known = {var: n.IntImm(var.dtype, self.symbols[var]) for var in variables(expr) if var in self.symbols}
        found = simplified(substitute(expr, known)) if known else expr
        if not isinstance(found, n.IntImm | n.FloatImm):
            found = simplified(found)
        if isinstance(found, n.IntImm):
            return bool(found.value) if found.dtype == "bool" else found.value
        if isinstance(found, n.FloatImm):
            return found.value
        missing = ", ".join(var.name for var in variables(expr) if var not in self.symbols)
        raise LoweringError(f"the dimension {expr!r} has no value: {missing or 'it'} is not known")

    # ------------------------------------------------------------------------------- checks

    def bind(self, info: r.StructInfo, value: Value, what: str, learn: bool = False) -> None:
        """Check that `value` is an `info`.
        With `learn`, only learn the values of dimensions that stand alone."""
        match info:
            case r.TensorStructInfo():
                self._bind_tensor(info, value, what, learn)
            case r.ShapeStructInfo():
                if not isinstance(value, tuple):
                    raise ArgumentError(f"{what} is {_shown(value)}, no shape")
                self._bind_dims(info.values, info.ndim, value, info, what, learn)
            case r.PrimStructInfo():
                if not isinstance(value, int | float | bool | np.generic):
                    raise ArgumentError(f"{what} is {_shown(value)}, not {info}")
                if info.value is not None:
                    self._bind_dims((info.value,), 1, (int(value),), info, what, learn)
            case r.TupleStructInfo():
                if not isinstance(value, tuple | list) or len(value) != len(info.fields):
                    raise ArgumentError(f"{what} is {_shown(value)}, not a tuple of {len(info.fields)}")
                for position, (item, part) in enumerate(zip(info.fields, value)):
                    self.bind(item, part, f"{what}[{position}]", learn)
            case r.ObjectStructInfo():
                pass

    def _bind_tensor(self, info: r.TensorStructInfo, value: Value, what: str, learn: bool) -> None:
        if not isinstance(value, np.ndarray | np.generic):
            raise ArgumentError(f"{what} is {_shown(value)}, not {info}")
        if not learn and info.dtype and np.asarray(value).dtype != storage_dtype(info.dtype):
            raise ArgumentError(f"{what} is {_shown(value)}, not {info}")
        self._bind_dims(info.dims, info.ndim, np.shape(value), info, what, learn)

    def _bind_dims(
        self, dims: Sequence[PrimExpr] | None, ndim: int, sizes: Sequence[int], info: r.StructInfo, what: str,
        learn: bool,
    ) -> None:  # fmt: skip
        if ndim not in (-1, len(sizes)):
            raise ArgumentError(f"{what} is of shape {tuple(sizes)}, not {info}")
        if dims is None:
            return
        if learn:
            for want, have in zip(dims, sizes):
                if isinstance(want, n.Var):
                    self.symbols.setdefault(want, int(have))
            return
        wanted = tuple([self.scalar(size) for size in dims])
        if wanted != tuple(sizes):
            raise ArgumentError(
                f"{what} is of shape {tuple(sizes)}, not {shape_text(dims)}, which is {wanted}",
                hint=f"it is declared as {info}",
            )

    # -------------------------------------------------------------------------------- calls

    def _call(self, call: r.Call) -> Value:
        if not isinstance(call.op, Op):
            return self.apply(self.value(call.op), [self.value(arg) for arg in call.args])
        special = _SPECIAL.get(call.op.name)
        if special is not None:
            return special(self, call)
        operator = operator_of(call.op)
        args = [self.value(arg) for arg in call.args]
        if not isinstance(operator.te, RefusedPart):
            kernel = self._machine.kernel(operator, args, call.attrs)
            arrays = [item for arg in args for item in _arrays(arg)]
            outs = [_new(tuple([int(_known(d)) for d in out.dims or ()]), out.dtype) for out in kernel.outputs]
            self._machine.run_kernel(kernel.func, *arrays, *outs)
            return tuple(outs) if kernel.several else outs[0]
        if not isinstance(operator.host, RefusedPart):
            return operator.host(*args, **call.attrs)
        if not isinstance(operator.legalize, RefusedPart):
            return self._legalized(operator.legalize, call, args)
        raise LoweringError(f"{operator.name} cannot be run here: {operator.te.reason}{at(call.span)}")

    def _legalized(self, legalize: Callable[[Any, r.Call], RelaxExpr], call: r.Call, args: Sequence[Value]) -> Value:
        """The value of the operator's replacement, in a function of its own with known shapes."""
        builder = BlockBuilder()
        exprs = [_stand_in(arg) for arg in args]
        params = list(dict.fromkeys(var for expr in exprs for var in _stand_in_vars(expr)))
        with builder.function("main", params):
            known = builder.normalize(r.Call(call.op, tuple(exprs), call.attrs, call.sinfo_args, call.span))
            builder.emit_func_output(builder.emit(legalize(builder, known)))
        arrays = [item for arg in args for item in _arrays(arg)]
        machine = Interpreter(builder.get())
        return machine.call(machine.function("main"), arrays)

    def apply(self, func: Value, args: Sequence[Value]) -> Value:
        """The value of a function for `args`."""
        if isinstance(func, _Closure):
            return self._machine.call(func.func, args, func.frame)
        if isinstance(func, r.Function):
            return self._machine.call(func, args)
        if isinstance(func, n.PrimFunc):
            self._machine.run_kernel(func, *args)
            return ()
        if callable(func):
            result = func(*args)
            return () if result is None else result
        raise LoweringError(f"{_shown(func)} is called, which is no function")

    def run_kernel(self, func: n.PrimFunc, *args: Any) -> None:
        """Run a kernel as the interpreter does."""
        self._machine.run_kernel(func, *args)

    def outputs(self, call: r.Call) -> tuple[list[Array], bool]:
        """Allocate the results that a call declares, and tell whether they are a tuple."""
        (info,) = call.sinfo_args
        several = isinstance(info, r.TupleStructInfo)
        found = []
        for item in info.fields if isinstance(info, r.TupleStructInfo) else (info,):
            assert isinstance(item, r.TensorStructInfo)
            found.append(_new(tuple([self.scalar(size) for size in item.dims or ()]), item.dtype))
        return found, several


# --------------------------------------------------------------------- operators known by name


def _call_tir(frame: _Frame, call: r.Call) -> Value:
    func, args = frame.value(call.args[0]), list(frame.value(call.args[1]))
    outs, several = frame.outputs(call)
    results = list(outs)
    indices = call.attrs.get("inplace_indices")
    if indices is not None:
        args = [np.array(arg) if position in indices else arg for position, arg in enumerate(args)]
        results = [outs[number] if index == -1 else args[index] for number, index in enumerate(indices)]
        outs = [out for out, index in zip(outs, indices) if index == -1]
    scalars = frame.value(call.args[2]) if len(call.args) > 2 else ()
    frame.run_kernel(func, *args, *outs, *scalars)
    return tuple(results) if several else results[0]


def _call_packed(frame: _Frame, call: r.Call) -> Value:
    return frame.apply(frame.value(call.args[0]), [frame.value(arg) for arg in call.args[1:]])


def _call_builtin(frame: _Frame, call: r.Call) -> Value:
    return frame.apply(frame.value(call.args[0]), [None, *frame.value(call.args[1])])


def _call_dps(frame: _Frame, call: r.Call) -> Value:
    outs, several = frame.outputs(call)
    frame.apply(frame.value(call.args[0]), [*frame.value(call.args[1]), *outs])
    return tuple(outs) if several else outs[0]


def _make_closure(frame: _Frame, call: r.Call) -> Value:
    func, more = frame.value(call.args[0]), list(frame.value(call.args[1]))
    return lambda *args: frame.apply(func, [*args, *more])


def _invoke_closure(frame: _Frame, call: r.Call) -> Value:
    return frame.apply(frame.value(call.args[0]), list(frame.value(call.args[1])))


def _message(frame: _Frame, values: Sequence[RelaxExpr], form: str) -> str:
    shown = [frame.value(value) for value in values]
    return form.format(*shown) if form else " ".join(map(str, shown))


def _print(frame: _Frame, call: r.Call) -> Value:
    print(_message(frame, call.args, call.attrs["format"]))
    return ()


def _assert(frame: _Frame, call: r.Call) -> Value:
    if not bool(np.asarray(frame.value(call.args[0]))):
        message = _message(frame, call.args[1:], call.attrs["format"]) or "an assertion of the program does not hold"
        raise AssertionFailed(message + at(call.span))
    return ()


_SPECIAL: dict[str, Callable[[_Frame, r.Call], Value]] = {
    "relax.call_tir": _call_tir,
    "relax.call_tir_inplace": _call_tir,
    "relax.call_tir_with_grad": _call_tir,
    "relax.call_pure_packed": _call_packed,
    "relax.call_inplace_packed": _call_packed,
    "relax.call_builtin_with_ctx": _call_builtin,
    "relax.call_dps_packed": _call_dps,
    "relax.make_closure": _make_closure,
    "relax.invoke_closure": _invoke_closure,
    "relax.invoke_pure_closure": _invoke_closure,
    "relax.print": _print,
    "relax.assert_op": _assert,
}


# --------------------------------------------------------------------------------------- values


def _taken(value: Any) -> Value:
    """An argument as values are here."""
    if isinstance(value, NDArray):
        return np.asarray(value)
    if isinstance(value, tuple | list):
        return tuple(map(_taken, value))
    return value


def _shown(value: Value) -> str:
    """A value in few words."""
    if isinstance(value, np.ndarray | np.generic):
        return f"{np.asarray(value).dtype}{list(np.shape(value))}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{value!r} ({type(value).__name__})"


def _new(shape: tuple[int, ...], dtype: str) -> Array:
    return np.zeros(shape, storage_dtype(dtype))


def _known(size: PrimExpr) -> int:
    found = simplified(size)
    assert isinstance(found, n.IntImm)
    return found.value


def _symbols(info: r.StructInfo) -> list[n.Var]:
    """The dimensions that a parameter mentions, which are the own ones of a function."""
    from_dims: list[n.Var] = []
    for value in getattr(info, "dims", None) or getattr(info, "values", None) or ():
        from_dims += variables(value)
    for item in info.fields if isinstance(info, r.TupleStructInfo) else ():
        from_dims += _symbols(item)
    return from_dims


def _signature(value: Value) -> Any:
    """Return what a kernel depends on of an argument."""
    if isinstance(value, np.ndarray | np.generic):
        return str(np.asarray(value).dtype), np.shape(value)
    if isinstance(value, tuple):
        return tuple(map(_signature, value))
    return type(value).__name__, value


def _stand_in(value: Value) -> Any:
    """An expression that stands for a value: a variable for an array, else a constant."""
    if isinstance(value, np.ndarray | np.generic):
        return r.Var("x", r.TensorStructInfo(np.shape(value), str(np.asarray(value).dtype)))  # type: ignore[arg-type]
    if isinstance(value, tuple):
        if value and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return r.ShapeExpr(tuple([int64(item) for item in value]))
        return r.ShapeExpr(()) if not value else r.Tuple(tuple(map(_stand_in, value)))
    if isinstance(value, str):
        return r.StringImm(value)
    return r.PrimValue(value)


def _stand_in_vars(expr: Any) -> list[r.Var]:
    if isinstance(expr, r.Var):
        return [expr]
    return [var for item in expr.fields for var in _stand_in_vars(item)] if isinstance(expr, r.Tuple) else []


def _arrays(value: Value) -> list[Array]:
    """The arrays in a value, as kernels take them."""
    if isinstance(value, np.ndarray | np.generic):
        return [np.ascontiguousarray(value).reshape(np.shape(value))]
    return [item for part in value for item in _arrays(part)] if isinstance(value, tuple) else []
