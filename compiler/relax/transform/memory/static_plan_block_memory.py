"""Place arrays that a function needs only while it runs in one arena, before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.joined_parts import JOINED_PARTS, Join, PlaceInArray, place_parts
from compiler.relax.nodes.dims import int64, simplified, text, variables
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.relax.normalize import merged
from compiler.relax.op.execution.calls import assert_op
from compiler.relax.op.execution.memory import memory_alloc_storage, memory_alloc_tensor
from compiler.relax.transform.memory.arena import Piece, lay_out
from compiler.relax.transform.memory.lifetimes import Lifetime, Lifetimes
from compiler.relax.transform.passes import relax_pass
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.host import ALIGNMENT
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

UPPER_BOUNDS = "tir_var_upper_bound"
"""The attribute of a function that says how large dimensions of its parameters get: {"n": 1024}."""


@relax_pass("StaticPlanBlockMemory", opt_level=1)
def static_plan_block_memory(mod: IRModule, context: PassContext) -> IRModule:
    """Place arrays that only the function uses into one arena.

    Those that live at different times share memory.

    a = R.builtin.alloc_tensor([16], …)    →    storage = R.memory.alloc_storage([128], …, "uint8")
    _ = cls.exp(x, a)                           a = R.memory.alloc_tensor(storage, 0, [16], …)
    b = R.builtin.alloc_tensor([16], …)         _ = cls.exp(x, a)
    _ = cls.exp(a, b)                           b = R.memory.alloc_tensor(storage, 64, [16], …)
    c = R.builtin.alloc_tensor([16], …)         _ = cls.exp(a, b)
    _ = cls.exp(b, c)                           c = R.memory.alloc_tensor(storage, 0, [16], …)
                                                _ = cls.exp(b, c)

    Concatenations (see JoinInPlace) find their parts in place from the beginning, and their kernels are not called.

    A size with dimensions that only a call tells is planned for its upper bound, from the function's attribute
    "tir_var_upper_bound" ({"n": 1024}). The function then checks that n is no more. Without bounds, arrays whose sizes
    are multiples of the same dimensions share an arena of as many multiples. What a function returns, or passes to
    functions that may keep it, is left alone. So are sizes over dimensions that are no parameter's.
    """
    functions = dict(mod.functions)
    for name, func in mod.items():
        if isinstance(func, r.Function) and func.body is not None:
            functions[name] = _planned(func, mod)
    joining = [name for name, func in functions.items() if JOINED_PARTS in func.attrs]
    called = {node for func in functions.values() if joining for node in walk(func) if isinstance(node, GlobalVar)}
    return mod.with_functions({name: functions[name] for name in functions if name not in joining or name in called})


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of array that may share an arena.
    Sizes and offsets are multiples of `unit`, which has the text `name`."""

    device: int
    scope: str
    name: str
    unit: PrimExpr


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The dimensions at the beginning of a function: values of some, and upper bounds of others."""

    known: frozenset[n.Var]
    most: Mapping[n.Var, int]

    @staticmethod
    def of(func: r.Function) -> _Bounds:
        known = [var for param in func.params for var in symbols_set_by(param.struct_info)]
        given = func.attrs.get(UPPER_BOUNDS) or {}
        most: dict[n.Var, int] = {}
        for var in dict.fromkeys(known):
            if var.name in given:
                most[var] = _number(given[var.name], var.name)
        return _Bounds(frozenset(known), most)

    def largest(self, size: PrimExpr) -> int | None:
        """The largest value of a dimension, or None where no bound is known."""
        if isinstance(size, n.IntImm):
            return size.value
        if not all(var in self.most for var in variables(size)):
            return None
        analyzer = Analyzer()
        for var, most in self.most.items():
            analyzer.bind(var, n.Range(int64(0), int64(most + 1)))
        return analyzer.const_int_bound(size)[1]


def _number(value: object, name: str) -> int:
    found = value.value if isinstance(value, n.IntImm) else value
    if not isinstance(found, int) or found < 0:
        raise IRError(f"{UPPER_BOUNDS} of {name} is {value!r}, no size")
    return found


def _planned(func: r.Function, mod: IRModule) -> r.Function:
    bounds = _Bounds.of(func)
    lifetimes = Lifetimes.of(func, mod)
    arrays: dict[_Kind, dict[int, tuple[Lifetime, int]]] = {}
    bounded = False
    for number, array in enumerate(lifetimes.arrays):
        found = None if array.escapes else _kind(array, bounds)
        if found is not None:
            arrays.setdefault(found[0], {})[number] = array, found[1]
            bounded = bounded or (found[0].name == "" and _is_symbolic(array))
    if not arrays:
        return func
    first: list[r.Binding] = _checks(func, bounds) if bounded else []
    places: dict[r.Var, tuple[r.Var, PrimExpr]] = {}
    joined: set[r.Var] = set()
    for kind, members in arrays.items():
        within, calls = _parts(lifetimes.joins, members)
        joined |= calls
        together: dict[int, list[Lifetime]] = {}
        for number, (array, _) in members.items():
            together.setdefault(within[number].within if number in within else number, []).append(array)
        pieces = [
            Piece(members[one][1], min(a.begin for a in held), max(a.end for a in held), members[one][0].branches)
            for one, held in together.items()
        ]
        arena = lay_out(pieces)
        begins = dict(zip(together, arena.offsets))
        storage = r.Var("storage", r.ObjectStructInfo())
        size = simplified(kind.unit * arena.size)
        made = memory_alloc_storage(r.ShapeExpr((size,)), kind.device, r.StringImm(kind.scope), "uint8")
        r.set_struct_info(made, r.ObjectStructInfo())
        first.append(r.VarBinding(storage, made))
        for number, (array, _) in members.items():
            place = within.get(number, PlaceInArray(number, 0))
            offset = simplified(kind.unit * begins[place.within]) + int64(place.offset)
            places[array.var] = storage, simplified(offset)
    placed = _Placed(places, joined).function(func)
    body = placed.body
    seq = r.SeqExpr(merged([r.BindingBlock(tuple(first)), *body.blocks]), body.body, body.span)
    r.set_struct_info(seq, body.struct_info)
    return r.Function(placed.params, seq, placed.ret_struct_info, placed.is_pure, placed.attrs, placed.span)


def _parts(
    joins: Mapping[r.Var, Join[int]], members: Mapping[int, tuple[Lifetime, int]]
) -> tuple[dict[int, PlaceInArray[int]], set[r.Var]]:
    """Where arrays lie that are parts of others, and the calls that then have nothing to copy.
    Parts and wholes are made in the same branch, have the sizes that the call expects, and begin where arrays may."""
    fitting: dict[Join[int], r.Var] = {}
    for var, join in joins.items():
        held = [members.get(number) for number in (join.whole, *join.parts)]
        sizes = [sum(join.sizes), *join.sizes]
        same = all(array is not None and array[1] == _aligned(size) for array, size in zip(held, sizes))
        branches = {array[0].branches for array in held if array is not None}
        if same and len(branches) == 1 and not any(size % ALIGNMENT for size in join.sizes[:-1]):
            fitting[join] = var
    places, kept = place_parts(list(fitting))
    return places, {fitting[join] for join in kept}


class _Placed(Renewal):
    """Puts arrays into their places, and leaves out the calls that only join them."""

    def __init__(self, places: Mapping[r.Var, tuple[r.Var, PrimExpr]], joined: Set[r.Var]) -> None:
        super().__init__()
        self._places = places
        self._joined = joined

    def binding(self, binding: r.Binding) -> r.Binding:
        if binding.var in self._joined:
            nothing = r.Tuple(())
            r.set_struct_info(nothing, r.TupleStructInfo(()))
            return r.VarBinding(binding.var, nothing, binding.span)
        if binding.var not in self._places:
            return super().binding(binding)
        assert isinstance(binding.value, r.Call)
        storage, offset = self._places[binding.var]
        shape, dtype = binding.value.args[:2]
        made = memory_alloc_tensor(storage, r.PrimValue(offset), shape, dtype)
        r.set_struct_info(made, binding.var.struct_info)
        return r.VarBinding(binding.var, made, binding.span)


def _is_symbolic(array: Lifetime) -> bool:
    info = array.var.struct_info_
    return info is not None and bool(symbols_in(info))


def _kind(array: Lifetime, bounds: _Bounds) -> tuple[_Kind, int] | None:
    """The arena of an array, and how many of its units the array takes.
    None if the array must stay as it is."""
    _, _, device, scope = array.call.args
    info = array.var.struct_info_
    number = r.info_of(device)
    if not isinstance(info, r.TensorStructInfo) or info.dims is None or not isinstance(scope, r.StringImm):
        return None
    if not isinstance(number, r.PrimStructInfo) or not isinstance(number.value, n.IntImm):
        return None
    item = storage_dtype(info.dtype).itemsize
    largest = [bounds.largest(size) for size in info.dims]
    if None not in largest:
        size = item
        for extent in largest:
            assert extent is not None
            size *= max(extent, 0)
        return _Kind(number.value.value, scope.value, "", int64(1)), _aligned(size)
    if not all(var in bounds.known for var in symbols_in(info)):
        return None
    units, count = _unit(info.dims)
    unit: PrimExpr = units[0]
    for factor in units[1:]:
        unit = unit * factor
    return _Kind(number.value.value, scope.value, text(unit), unit), _aligned(count * item)


def _unit(dims: Sequence[PrimExpr]) -> tuple[list[PrimExpr], int]:
    """The number of elements as a product: a number, and a symbolic part in a fixed order."""
    factors: list[PrimExpr] = []
    count = 1
    for size in dims:
        factor, of_it = (0, 0) if isinstance(size, n.IntImm) else Analyzer().modular_set(size)
        if isinstance(size, n.IntImm):
            count *= size.value
        elif factor > 1 and of_it == 0:
            count *= factor
            factors.append(simplified(ops.floordiv(size, int64(factor))))
        else:
            factors.append(simplified(size))
    return sorted(factors, key=text), count


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _checks(func: r.Function, bounds: _Bounds) -> list[r.Binding]:
    """Check that dimensions are at most their bounds: arrays would overlap otherwise."""
    name = str(func.attrs.get("global_symbol", "the function"))
    made: list[r.Binding] = []
    for var, most in bounds.most.items():
        message = f"{name}: {var.name} is {{}}, and its {UPPER_BOUNDS} is {most}"
        call = assert_op(r.PrimValue(ops.less_equal(var, int64(most))), r.PrimValue(var), format=message)
        r.set_struct_info(call, r.TupleStructInfo(()))
        made.append(r.VarBinding(r.Var("_", r.TupleStructInfo(())), call))
    return made
