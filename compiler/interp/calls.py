"""Python source for calls of intrinsics."""

from __future__ import annotations

from collections.abc import Callable

from compiler.dtype import element_of, lanes_of, parse_dtype
from compiler.errors import LoweringError
from compiler.interp.expr import RULES, ExprWriter, ValueCode
from compiler.interp.extern import known
from compiler.interp.math_functions import FLOAT_INTRINSICS
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


def _call(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    name = getattr(e.op, "name", str(e.op)).removeprefix("tir.")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(w, e, lane)
    dtype = element_of(e.dtype)
    if name in FLOAT_INTRINSICS and parse_dtype(dtype).is_float:
        args = ", ".join(w.operand(a, lane).code for a in e.args)
        return ValueCode(f"intrinsic_{name}({args})", exact=False)
    raise LoweringError(f"the interpreter has no rule for the intrinsic {name}")


def _if_then_else(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    condition, yes, no = e.args
    return w.branch(w.operand(condition, lane).code, lambda: w.operand(yes, lane), lambda: w.operand(no, lane))


def _likely(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    return w.operand(e.args[0], lane)


def _fma(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    """Round once. The 16-bit floats are computed in float32 and then rounded to their dtype."""
    args = ", ".join(w.operand(a, lane).code for a in e.args)
    narrow = parse_dtype(e.dtype).bits == 16
    return ValueCode(f"fma({args}, {('float32' if narrow else element_of(e.dtype))!r})", exact=not narrow)


def _shift_left(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    a, b = (w.operand(x, lane) for x in e.args)
    return ValueCode(f"shift_left({a.code}, {b.code}, {parse_dtype(element_of(e.dtype)).bits})")


def _shift_right(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    a, b = (w.operand(x, lane) for x in e.args)
    bits = parse_dtype(element_of(e.dtype)).bits
    hi = None if a.hi is None else max(a.hi, 0)
    return ValueCode(f"shift_right({a.code}, {b.code}, {bits})", None if a.lo is None else min(a.lo, 0), hi)


def _bitwise(sign: str) -> Callable[[ExprWriter, n.Call, int], ValueCode]:
    def write(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
        a, b = (w.operand(x, lane).code for x in e.args)
        # the dtype's range holds the result; naming it spares the wrapping
        parsed = parse_dtype(element_of(e.dtype))
        half = 1 << (parsed.bits - 1) if parsed.is_signed else 0
        return ValueCode(f"({a} {sign} {b})", -half, (1 << parsed.bits) - half - 1)

    return write


def _bitwise_not(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    return ValueCode(f"(~{w.operand(e.args[0], lane).code})")


def _count(name: str) -> Callable[[ExprWriter, n.Call, int], ValueCode]:
    def write(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
        bits = parse_dtype(element_of(e.args[0].dtype)).bits
        return ValueCode(f"{name}({w.operand(e.args[0], lane).code}, {bits})", 0, bits)

    return write


def _isnan(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    x = w.name_of(w.operand(e.args[0], lane))
    return ValueCode(f"({x} != {x})", 0, 1)


def _isinf(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    x = w.name_of(w.operand(e.args[0], lane))
    return ValueCode(f"({x} == INF or {x} == -INF)", 0, 1)


def _isfinite(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    return ValueCode(f"(-INF < {w.operand(e.args[0], lane).code} < INF)", 0, 1)


def _nextafter(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    args = ", ".join(w.operand(a, lane).code for a in e.args)
    return ValueCode(f"nextafter({args}, {element_of(e.dtype)!r})")


def _reinterpret(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    source, target = element_of(e.args[0].dtype), element_of(e.dtype)
    if parse_dtype(source).bits != parse_dtype(target).bits:
        raise LoweringError(f"the interpreter reinterprets lane by lane: {e.args[0].dtype} as {e.dtype} is not")
    return ValueCode(f"reinterpret({w.operand(e.args[0], lane).code}, {source!r}, {target!r})")


def _vectorlow(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    if lanes_of(e.dtype) > lanes_of(e.args[0].dtype):
        raise LoweringError(f"vectorlow of {e.args[0].dtype} has no {e.dtype}")
    return w.value(e.args[0], lane)


def _prefetch(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    return ValueCode("0", 0, 0)


def _extern(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    """A function of the C library, called as machine code calls it."""
    name, *rest = e.args
    if not isinstance(name, n.StringImm) or not known(name.value):
        raise LoweringError(f"call_extern of {name!r}: neither libc nor libm has a function of this name")
    args = ", ".join(_extern_argument(w, a, lane) for a in rest)
    dtypes = tuple(element_of(a.dtype) for a in rest)
    return ValueCode(f"c_call({name.value!r}, {element_of(e.dtype)!r}, {dtypes!r}, [{args}])")


def _extern_argument(w: ExprWriter, e: PrimExpr, lane: int) -> str:
    match e:
        case n.StringImm():
            return repr(e.value.encode())
        case n.Var(dtype="handle"):
            return f"c_address({w.memory.at_address(e)}, 0, 0)"
        case n.Call(args=(kind, n.Var() as data, start, extent, _)) if e.op.name == "tir.tvm_access_ptr":  # type: ignore[union-attr]
            size = parse_dtype(kind.dtype).bits * lanes_of(kind.dtype) // 8
            places = f"({w.index(start).code})*{size}, ({w.index(extent).code})*{size}"
            return f"c_address({w.memory.at_address(data)}, {places})"
    return w.operand(e, lane).code


def _no_threads(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    raise LoweringError("a barrier between threads has no meaning where threads run one after another")


def _dot(group: int, dtype: str) -> Callable[[ExprWriter, n.Call, int], ValueCode]:
    """Add the products of a group of lanes to c[lane].
    A float32 is rounded after each addition, from the last on."""

    def write(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
        c, a, b = e.args
        total = w.operand(c, lane).code
        first = group * lane if lanes_of(a.dtype) > group else 0  # all lanes may share one group
        for j in reversed(range(group)):
            product = f"({w.operand(a, first + j).code}) * ({w.operand(b, group * lane + j).code})"
            total = f"fma({product}, 1.0, {total}, {dtype!r})" if dtype == "float32" else f"({total} + {product})"
        return ValueCode(total, exact=False)

    return write


def _tile_product(group: int, dtype: str) -> Callable[[ExprWriter, n.Call, int], ValueCode]:
    """Return a lane of a product of tiles. All lanes are computed at once."""

    def write(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
        def product() -> str:
            tiles = ("[" + ", ".join(w.operand(x, i).code for i in range(lanes_of(x.dtype))) + "]" for x in e.args)
            return f"tile_product({group}, {dtype!r}, {', '.join(tiles)})"

        return ValueCode(f"{w.all_lanes(e, product)}[{lane}]", exact=dtype == "float32")

    return write


def _tile_of_rows(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    """A lane of vectors put behind each other."""
    return w.operand(e.args[lane // lanes_of(e.args[0].dtype)], lane % lanes_of(e.args[0].dtype))


def _turned(w: ExprWriter, e: n.Call, lane: int) -> ValueCode:
    """Return a lane of 16 vectors of 32-bit words, transposed: the first words of all come first."""
    group = lanes_of(e.args[0].dtype) // len(e.args)
    word, row, part = lane // group // len(e.args), lane // group % len(e.args), lane % group
    return w.operand(e.args[row], word * group + part)


_SPECIAL: dict[str, Callable[[ExprWriter, n.Call, int], ValueCode]] = {
    "if_then_else": _if_then_else,
    "likely": _likely,
    "fma": _fma,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "bitwise_and": _bitwise("&"),
    "bitwise_or": _bitwise("|"),
    "bitwise_xor": _bitwise("^"),
    "bitwise_not": _bitwise_not,
    "popcount": _count("popcount"),
    "clz": _count("clz"),
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "nextafter": _nextafter,
    "reinterpret": _reinterpret,
    "vectorlow": _vectorlow,
    "x86_dpbusd": _dot(4, "int32"),
    "x86_dpbf16ps": _dot(2, "float32"),
    "x86_pmaddwd": _dot(2, "int32"),
    "x86_dpwssd": _dot(2, "int32"),
    "x86_amx_dpbf16ps": _tile_product(2, "float32"),
    **{f"x86_amx_dpb{signs}d": _tile_product(4, "int32") for signs in ("ss", "su", "us", "uu")},
    "x86_amx_rows": _tile_of_rows,
    "x86_amx_turned": _turned,
    "x86_amx_zero": _likely,
    "x86_amx_kept": _likely,
    "prefetch": _prefetch,
    "call_extern": _extern,
    "tvm_storage_sync": _no_threads,
}
RULES[n.Call] = _call
