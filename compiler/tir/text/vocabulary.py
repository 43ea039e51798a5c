"""The meaning of `T.<name>` as an expression: dtypes, constants, operators and intrinsics.

Nothing here folds constants, so a printed expression is read back unchanged. The same functions serve outside a
script: `T.int64(3)` is a constant anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import Signature
from typing import Any

from compiler.dtype import parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op
from compiler.target.target import Target
from compiler.tir import composed, ops
from compiler.tir import nodes as n
from compiler.tir.intrin import foreign, intrin
from compiler.tir.nodes import PrimExpr
from compiler.tir.text import parameter_names

_BINARY = (
    n.Add, n.Sub, n.Mul, n.Div, n.Mod, n.FloorDiv, n.FloorMod, n.Min, n.Max,
    n.EQ, n.NE, n.LT, n.LE, n.GT, n.GE, n.And, n.Or,
)  # fmt: skip
_MATCHED = frozenset({"pow", "fma", "fmod", "atan2", "hypot", "copysign", "shift_left", "shift_right",
                      "bitwise_and", "bitwise_or", "bitwise_xor"})  # fmt: skip
_ITER_TYPES = {"".join(word.capitalize() for word in kind.name.split("_")): kind for kind in n.IterType}


@dataclass(frozen=True)
class TypeName:
    """`T.float32`: a dtype as an annotation.
    Called, it is a constant, a conversion or (without a value) a variable."""

    dtype: str

    def __call__(self, expr: Any = None, is_size_var: bool = False) -> PrimExpr:
        """Raise IRError for a number the dtype cannot hold."""
        value = expr
        if value is None or self.dtype == "handle":
            return (n.SizeVar if is_size_var else n.Var)("", self.dtype)
        if isinstance(value, str):
            value = self._special(value)
        if isinstance(value, bool | int | float):
            return self._constant(value)
        return ops.cast(self.dtype, value)

    def _special(self, text: str) -> float:
        if not parse_dtype(self.dtype).is_float or text.lstrip("+-") not in ("inf", "nan", "infinity"):
            raise IRError(f"T.{self.dtype} has no value {text!r}", hint='floats have "inf", "-inf" and "nan"')
        return float(text)

    def _constant(self, value: float) -> PrimExpr:
        parsed = parse_dtype(self.dtype)
        if parsed.is_int and (value != value or value in (float("inf"), float("-inf")) or value != int(value)):
            raise IRError(f"T.{self.dtype} cannot hold {value!r}")
        if parsed.is_int:
            element = with_lanes(self.dtype, 1)
            low, high = ops.as_int(ops.min_value(element)), ops.as_int(ops.max_value(element))
            assert low is not None
            assert high is not None
            if not low <= value <= high:
                raise IRError(f"{value!r} is outside the range of {element}: [{low}, {high}]")
        return ops.const(value, self.dtype)


def binary(kind: type[n.BinaryOp], a: Any, b: Any) -> PrimExpr:
    """`kind(a, b)` with matched dtypes, nothing folded."""
    x, y = ops.match_types(a, b)
    if kind in (n.And, n.Or) and parse_dtype(x.dtype).code != "bool":
        raise IRError(f"`{kind.__name__.lower()}` needs conditions, got {x.dtype}")
    return kind(x, y)


def divide(a: Any, b: Any) -> PrimExpr:
    """True division; integers have several and say which."""
    x, y = ops.match_types(a, b)
    if not parse_dtype(x.dtype).is_float:
        raise IRError("'/' on integers is ambiguous", hint="use //, T.truncdiv, or cast to float first")
    return n.Div(x, y)


def negate(a: Any) -> PrimExpr:
    return ops.neg(a)


def _ceildiv(lhs: Any, rhs: Any) -> PrimExpr:
    x, y = ops.match_types(lhs, rhs)
    return ops.ceildiv(x, y)


def _fold(kind: type[n.BinaryOp]) -> Callable[..., PrimExpr]:
    def build(*items: Any, **named: Any) -> PrimExpr:
        items = (*items, *(named[key] for key in sorted(named)))
        if not items:
            raise IRError(f"{kind.__name__} of nothing")
        result = ops.as_expr(items[0])
        for item in items[1:]:
            result = binary(kind, result, item)
        return result

    return build


def _not(a: Any) -> PrimExpr:
    condition = ops.as_expr(a)
    if parse_dtype(condition.dtype).code != "bool":
        raise IRError(f"`not` needs a condition, got {condition.dtype}")
    return n.Not(condition)


def _cast(dtype: Any, value: Any) -> PrimExpr:
    if isinstance(value, str | TypeName) and not isinstance(dtype, str | TypeName):  # the order of `T.cast`
        dtype, value = value, dtype
    name = dtype.dtype if isinstance(dtype, TypeName) else dtype
    return n.Cast(str(parse_dtype(name)), ops.as_expr(value))


def _select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    return n.Select(ops.as_expr(condition), *ops.match_types(true_value, false_value))


def _ramp(base: Any, stride: Any, lanes: Any) -> PrimExpr:
    first, step = ops.match_types(base, stride)
    return n.Ramp(first, step, _lanes("Ramp", lanes))


def _broadcast(value: Any, lanes: Any) -> PrimExpr:
    return n.Broadcast(ops.as_expr(value), _lanes("Broadcast", lanes))


def _shuffle(vectors: Any, indices: Any) -> PrimExpr:
    return n.Shuffle(tuple(map(ops.as_expr, vectors)), tuple(map(ops.as_expr, indices)))


def _lanes(what: str, lanes: Any) -> int:
    count = ops.as_int(lanes)
    if count is None or count < 1:
        raise IRError(f"T.{what} needs a positive constant number of lanes, got {lanes!r}")
    return count


def _string(text: str) -> PrimExpr:
    return n.StringImm(text)


def _float_imm(dtype: str, value: float) -> PrimExpr:
    return n.FloatImm(dtype, float(value))


def _int_imm(dtype: str, value: int) -> PrimExpr:
    return n.IntImm(dtype, int(value))


def _var(dtype: str | TypeName = "int32", is_size_var: bool = False) -> PrimExpr:
    name = dtype.dtype if isinstance(dtype, TypeName) else dtype
    return TypeName(str(parse_dtype(name)))(is_size_var=is_size_var)


def _iter_var(v: n.Var, dom: Any, iter_type: str, thread_tag: str = "") -> n.IterVar:
    kind = _ITER_TYPES.get(iter_type)
    if kind is None:
        raise IRError(f"T.iter_var has no type {iter_type!r}", hint=f"types: {', '.join(_ITER_TYPES)}")
    if isinstance(dom, tuple | list) and len(dom) == 2:
        dom = n.Range(ops.as_expr(dom[0]), ops.as_expr(dom[1]))
    return n.IterVar(dom, v, kind, thread_tag)


def _operator(name: Any) -> Op | GlobalVar:
    if isinstance(name, n.StringImm):
        name = name.value
    if isinstance(name, Op | GlobalVar):
        return name
    if name.startswith("@"):
        return GlobalVar(name[1:])
    if name.startswith("tirx."):  # as newer versions have it
        name = f"tir.{name[5:]}"
    try:
        return Op.get(name)
    except KeyError:
        raise IRError(f"there is no operator {name!r}", hint="the names are those of printed IR, as tir.exp") from None


def _call(dtype: str, op: Any, *args: Any) -> PrimExpr:
    if len(args) == 1 and isinstance(args[0], list | tuple):
        args = tuple(args[0])
    return n.Call(intrin.result_dtype(dtype), _operator(op), tuple(map(ops.as_expr, args)))


def _intrinsic(name: str, *args: Any, dtype: str | TypeName | None = None) -> PrimExpr:
    """A call of the operator tir.`name`, whose dtype follows from its arguments.
    Older texts give it as well."""
    if dtype is not None:
        return _of_dtype(name, args, dtype)
    full = f"tir.{name}"
    if full in intrin.TYPED_CALLS:
        typed, *rest = args
        return _call(typed, full, *rest)
    values = [ops.as_expr(a) for a in args]
    count = 3 if name in ("if_then_else", "fma") else 2 if name in _MATCHED else 1
    if len(values) != count and (count > 1 or name in intrin.FLOAT_UNARY):
        raise IRError(f"T.{name} takes {count} argument{'s' * (count > 1)}, not {len(values)}")
    if name == "if_then_else":
        values[1:] = ops.match_types(args[1], args[2])
    elif name in _MATCHED:
        values[:2] = ops.match_types(args[0], args[1])
        values[2:] = [ops.cast(values[0].dtype, v) for v in values[2:]]
    elif name in intrin.FLOAT_UNARY and not parse_dtype(values[0].dtype).is_float:
        values = [ops.cast(with_lanes("float32", parse_dtype(values[0].dtype).lanes), values[0])]
    return n.Call(intrin.usual_dtype(full, values), Op.get(full), tuple(values))


@dataclass(frozen=True)
class TextOperator:
    """`T.exp`: called, it is a call of the operator. Arguments are given by position, or by TVM's names for them."""

    name: str

    @property
    def is_typed(self) -> bool:
        """Whether a dtype comes before its arguments."""
        return f"tir.{self.name}" in intrin.TYPED_CALLS

    @property
    def __signature__(self) -> Signature:
        return parameter_names.signature(self.name, self.is_typed)

    def __call__(self, *args: Any, dtype: str | TypeName | None = None, **named: Any) -> PrimExpr:
        """Raises IRError for arguments that the operator does not take."""
        typed = self.is_typed and dtype is None
        return _intrinsic(self.name, *parameter_names.arranged(self.name, args, named, typed), dtype=dtype)


def _of_dtype(name: str, args: tuple[Any, ...], dtype: str | TypeName) -> PrimExpr:
    """The call with its dtype given: operands become that, except conditions."""
    wanted = str(parse_dtype(dtype.dtype if isinstance(dtype, TypeName) else dtype))
    if f"tir.{name}" in intrin.TYPED_CALLS:
        return _intrinsic(name, wanted, *args)
    if name == "if_then_else" and len(args) == 3:
        return _intrinsic(name, args[0], *(ops.cast(wanted, ops.as_expr(value)) for value in args[1:]))
    found = _intrinsic(name, *args)
    return found if found.dtype == wanted else n.Call(wanted, Op.get(f"tir.{name}"), found.args)  # type: ignore[attr-defined]


def _dtype_named(function: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """Let `function` also take its first argument, a dtype, as `dtype=` last, as in older texts.
    What is called may be named: `func_name=` or `name=`."""

    def call(*args: Any, dtype: str | TypeName | None = None, **named: Any) -> PrimExpr:
        typed, *rest = args if dtype is None else (dtype, *args)
        if len(named) == 1 and not rest and not {"func_name", "name"}.isdisjoint(named):
            rest = list(named.values())
        elif named:
            raise IRError(f"{function.__name__} takes no {', '.join(named)}")
        return function(typed.dtype if isinstance(typed, TypeName) else typed, *rest)

    return call


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: partial(binary, kind) for kind in _BINARY},
    "min": _fold(n.Min),
    "max": _fold(n.Max),
    "all": _fold(n.And),
    "any": _fold(n.Or),
    "And": _fold(n.And),
    "Or": _fold(n.Or),
    "floordiv": partial(binary, n.FloorDiv),
    "floormod": partial(binary, n.FloorMod),
    "truncdiv": partial(binary, n.Div),
    "truncmod": partial(binary, n.Mod),
    "div": divide,
    "ceildiv": _ceildiv,
    "Not": _not,
    "Cast": _cast,
    "cast": lambda x, dtype: _cast(x, dtype),
    "Select": _select,
    "Ramp": _ramp,
    "ramp": _ramp,
    "Broadcast": _broadcast,
    "broadcast": _broadcast,
    "Shuffle": _shuffle,
    "StringImm": _string,
    "IntImm": _int_imm,
    "FloatImm": _float_imm,
    "Call": _dtype_named(_call),
    "call_intrin": _dtype_named(_call),
    "call_extern": _dtype_named(intrin.call_extern),
    "call_packed": intrin.call_packed,
    **{name.removeprefix("tvm_"): TextOperator(name) for name in sorted(intrin.TEXT_CALLS - {"tvm_call_packed"})},
    "tvm_struct_get": lambda arr, index, field, dtype: _intrinsic("tvm_struct_get", arr, index, field, dtype=dtype),
    "call_pure_extern": _dtype_named(foreign.call_pure_extern),
    "call_llvm_intrin": _dtype_named(foreign.call_llvm_intrin),
    "call_llvm_pure_intrin": _dtype_named(foreign.call_llvm_pure_intrin),
    "llvm_lookup_intrinsic_id": foreign.llvm_intrinsic,
    "address_of": foreign.address_of,
    "acosh": composed.acosh,
    "asinh": composed.asinh,
    "atanh": composed.atanh,
    "var": _var,
    "Var": lambda name, dtype: _var(dtype),
    "iter_var": _iter_var,
    "abs": intrin.abs,
    "power": intrin.power,
    "pow": intrin.power,
    "min_value": ops.min_value,
    "max_value": ops.max_value,
    "infinity": lambda dtype: TypeName(dtype)("inf"),
    "target": lambda target_config, host=None: Target(target_config, host),
}


def lookup(name: str) -> Any:
    """Return what `T.name` is in an expression; None when it is nothing."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    try:
        return TypeName(str(parse_dtype("bool" if name == "boolean" else name)))
    except IRError:
        pass
    try:
        Op.get(f"tir.{name}")
    except KeyError:
        return None
    return TextOperator(name)


def names() -> list[str]:
    """Every name `lookup` knows, dtypes with several lanes left out."""
    types = ["bool", "handle", "bfloat16", *(f"float{b}" for b in (16, 32, 64))]
    types += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    return sorted({*_FUNCTIONS, *types, *Op.names("tir.")})
