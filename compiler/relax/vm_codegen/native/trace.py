"""Follow a lowered graph function once from begin to end: its calls and their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.arith.analyzer import Analyzer
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.lower.blocks.shape_vars import extent_text
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import int64, replaced, simplified, variables
from compiler.relax.nodes.unify import Values, unify
from compiler.relax.vm_codegen.native.header import FunctionHeader, GraphHeader, fitted, header_of
from compiler.relax.vm_codegen.native.rules import RULES
from compiler.relax.vm_codegen.native.values import (
    Branch,
    Cell,
    Check,
    Copy,
    Fill,
    Follows,
    FunctionName,
    Instruction,
    Invoke,
    Merged,
    NativeStorage,
    NativeTensor,
    NotNative,
    Open,
    Read,
    Reserve,
    ShapeValue,
    Text,
    Unknown,
    Value,
    as_float,
    bytes_of,
    leaves,
    mentions,
)
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

NOTHING: tuple[Value, ...] = ()
MOST_BYTES = float(1 << 46)
"""The largest array whose shape a graph may compute."""


@dataclass(slots=True)
class Surroundings:
    """The state that the functions of one module share.

    kernels, graphs: the functions by name. written: which parameters of a kernel it writes. constant: the number of an
    array in the executable; constants: the greatest such number and 1. checks: the messages of checks, by number.
    """

    kernels: Mapping[str, n.PrimFunc]
    graphs: Mapping[str, r.Function]
    written: Callable[[str], frozenset[int]]
    constant: Callable[[r.Constant], int]
    constants: int = 0
    checks: list[str] = field(default_factory=list)
    headers: dict[str, FunctionHeader] = field(default_factory=dict)

    def check_number(self, message: str) -> int:
        if message not in self.checks:
            self.checks.append(message)
        return self.checks.index(message)

    def header(self, name: str) -> FunctionHeader:
        """Return what a kernel takes. Raises NotNative for a name that is none."""
        if name not in self.headers:
            if name not in self.kernels:
                raise NotNative(f"the packed function {name}")
            self.headers[name] = header_of(self.kernels[name])
        return self.headers[name]


class FunctionTrace:
    """Follows a function.

    `code` is what it does, `result` what it gives, `storages` the memory that it made. `late` are the numbers found at
    run time, each with the branch in which it is known. Raises NotNative, saying where, for what only the interpreter
    does.
    """

    def __init__(self, name: str, func: r.Function, around: Surroundings) -> None:
        self.name = name
        self.around = around
        self.own = GraphHeader(name, func)
        self.code: list[Instruction] = []
        self.storages: list[NativeStorage] = []
        self.calls: set[str] = set()
        self.written: set[NativeStorage] = set()
        self.position = 0
        self._scope = 0
        self._values: dict[r.Var, Value] = dict(zip(func.params, self.own.values))
        self._constants: dict[int, NativeTensor] = {}
        self.late: dict[n.Var, int] = {}
        self.result: Value = ()
        self._analyzer = Analyzer()
        self._refused: list[str] = []
        assert isinstance(func.body, r.SeqExpr)
        try:
            self._follow(func.body)
        except Follows as error:
            if not self._refused:
                raise NotNative(error.message) from None
        if self._refused:
            raise NotNative(self._refused[0], self._refused)

    def _follow(self, body: r.SeqExpr) -> None:
        self.result = self._sequence(body)

    # ---------------------------------------------------------------------------- structure

    def _sequence(self, seq: r.SeqExpr) -> Value:
        for block in seq.blocks:
            for binding in block.bindings:
                self._binding(binding)
        return self._value(seq.body)

    def _binding(self, binding: r.Binding) -> None:
        if isinstance(binding, r.MatchCast):
            raise NotNative("a match_cast that no pass has lowered")
        try:
            self._values[binding.var] = self._value(binding.value)
        except NotNative as error:  # go on, to find everything that is in the way
            if not isinstance(error, Follows):
                where = at(binding.span)
                self._refused.append(error.message if where in error.message else f"{error.message}{where}")
            self._values[binding.var] = Unknown()

    def _value(self, expr: RelaxExpr) -> Value:
        match expr:
            case r.Var():
                found = self._values[expr]
                if isinstance(found, Unknown):
                    raise Follows(f"{expr.name_hint}, which the interpreter makes")
                return found
            case r.Constant():
                return self._constant(expr)
            case r.ShapeExpr():
                return ShapeValue(expr.values)
            case r.PrimValue():
                return expr.value
            case r.StringImm() | r.DataTypeImm():
                return Text(str(expr.value))
            case GlobalVar():
                return FunctionName(expr.name_hint)
            case r.ExternFunc():
                return FunctionName(expr.global_symbol)
            case r.Tuple():
                return tuple([self._value(item) for item in expr.fields])
            case r.TupleGetItem():
                return self._field(self._value(expr.tuple_value), expr.index)
            case r.If():
                return self._if(expr)
            case r.SeqExpr():
                return self._sequence(expr)
            case r.Call():
                return self._call(expr)
        raise NotNative(r.describe(expr))

    def _field(self, value: Value, index: int) -> Value:
        if not isinstance(value, tuple) or not 0 <= index < len(value):
            raise NotNative(f"field {index} of what is no tuple with such a field")
        return value[index]

    def _constant(self, constant: r.Constant) -> NativeTensor:
        number = self.around.constant(constant)
        self.around.constants = max(self.around.constants, number + 1)
        if number not in self._constants:
            dims = tuple(map(int64, constant.data.shape))
            storage = NativeStorage(bytes_of(dims, constant.data.dtype), number)
            self._constants[number] = NativeTensor(storage, dims, constant.data.dtype)
        return self._constants[number]

    def _emit(self, instruction: Instruction) -> None:
        self.code.append(instruction)
        self.position += 1

    def check(self, condition: PrimExpr | NativeTensor, message: str) -> None:
        """Have the condition checked where the function runs, unless it always holds."""
        if not (isinstance(condition, n.IntImm) and condition.value):
            self._use(condition)
            self._emit(Check(condition, self.around.check_number(message)))

    def _use(self, *values: Value) -> None:
        for value in values:
            if isinstance(value, NativeTensor):
                value.storage.used_at(self.position)

    def copy(self, target: NativeTensor, source: NativeTensor) -> None:
        """Have an array's bytes copied."""
        self._use(target, source)
        self._emit(Copy(target, source))

    # --------------------------------------------------------------------------- conditions

    def _condition(self, expr: r.If) -> NativeTensor | PrimExpr:
        condition = self._value(expr.cond)
        if not isinstance(condition, NativeTensor | PrimExpr):
            raise NotNative("a condition that is neither an array nor a number")
        if isinstance(condition, NativeTensor) and any(
            not isinstance(d, n.IntImm) or d.value != 1 for d in condition.dims
        ):
            raise NotNative("a condition of more than one number")
        self._use(condition)
        self.position += 1
        return condition

    def _if(self, expr: r.If) -> Value:
        condition = self._condition(expr)
        kept, outer = self.code, self._scope
        taken: list[tuple[int, list[Instruction], Value]] = []
        for branch in (expr.true_branch, expr.false_branch):
            self.code, self._scope = [], self.position
            assert isinstance(branch, r.SeqExpr)
            value = self._sequence(branch)
            taken.append((self._scope, self.code, value))
            self.position += 1
        (_, yes_code, yes), (_, no_code, no) = taken
        ends = self.position - 2, self.position - 1
        self.code, self._scope = kept, outer
        merged = self._merged(yes, no)
        for (scope, code, value), end in zip(taken, ends):
            self.code = code
            for source, target in zip(leaves(value), leaves(merged)):
                self._deliver(source, target, scope, end)
        self.code = kept
        self._emit(Branch(condition, tuple(yes_code), tuple(no_code)))
        return self._opened(merged)

    def _merged(self, yes: Value, no: Value) -> Value:
        """Return what an If gives: memory of its own for arrays, and numbers that agree on both sides."""
        if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
            return tuple([self._merged(a, b) for a, b in zip(yes, no)])
        if isinstance(yes, NativeTensor) and isinstance(no, NativeTensor):
            if yes is no:
                return yes
            if len(yes.dims) != len(no.dims) or yes.dtype != no.dtype:
                raise NotNative("an If of arrays whose ranks or types are not the same")
            if not self._same_dims(yes.dims, no.dims) or not all(map(self._known_here, yes.dims)):
                return Merged(Cell.of(len(yes.dims)), yes.dtype)
            return self._allocated(yes.dims, yes.dtype)
        if isinstance(yes, ShapeValue) and isinstance(no, ShapeValue) and len(yes.dims) == len(no.dims):
            if self._same_dims(yes.dims, no.dims) and all(map(self._known_here, yes.dims)):
                return yes
            return Merged(Cell.of(len(yes.dims)))
        if isinstance(yes, PrimExpr) and isinstance(no, PrimExpr) and self.equal(yes, no) and self._known_here(yes):
            return yes
        raise NotNative("an If whose sides give different things")

    def _known_here(self, extent: PrimExpr) -> bool:
        """Whether an extent depends on no number that was found only in an earlier branch."""
        return all(self.late.get(var, self._scope) <= self._scope for var in variables(extent))

    def _opened(self, value: Value) -> Value:
        """Return what an If gives, with names for the extents on which its sides do not agree."""
        if isinstance(value, tuple):
            return tuple([self._opened(item) for item in value])
        if not isinstance(value, Merged):
            return value
        found = self.open(value.cell, value.dtype or "uint8")
        return found if value.dtype else ShapeValue(found.dims)

    def open(self, cell: Cell, dtype: str) -> NativeTensor:
        """The array in a cell, its extents as new names."""
        dims = tuple([self.number(f"extent_{axis}") for axis in range(cell.ndim)])
        address = n.Var("address", "handle")
        self._emit(Open(cell, address, dims))
        return NativeTensor(NativeStorage(bytes_of(dims, dtype), address), dims, dtype)

    def number(self, name: str) -> n.Var:
        """Return a name for a number that the function computes here."""
        var = n.Var(name, "int64")
        self.late[var] = self._scope
        return var

    def read(self, source: NativeTensor, name: str) -> n.Var:
        """The first number of an int64 array."""
        var = self.number(name)
        self._use(source)
        self._emit(Read(var, source))
        return var

    def is_late(self, extent: PrimExpr) -> bool:
        """Whether an extent becomes known only when the function runs."""
        return mentions(extent, self.late)

    def fill(self, cell: Cell, source: NativeTensor | ShapeValue) -> None:
        """Have an array copied into a cell, or only numbers."""
        self._use(source)
        self._emit(Fill(cell, source.dims, source if isinstance(source, NativeTensor) else None))

    def _deliver(self, source: Value, target: Value, scope: int, end: int) -> None:
        """Compute the result of a branch in the place of the If's value, or copy it there at the branch's end."""
        if isinstance(target, Merged):
            assert isinstance(source, NativeTensor | ShapeValue)
            if isinstance(source, NativeTensor):
                source.storage.used_at(end)
            self.code.append(Fill(target.cell, source.dims, source if isinstance(source, NativeTensor) else None))
            return
        if source is target or not isinstance(source, NativeTensor) or not isinstance(target, NativeTensor):
            return
        root, into = source.storage.root, target.storage
        whole = isinstance(source.offset, n.IntImm) and source.offset.value == 0
        if whole and root.place is None and root.scope == scope and self.equal(root.nbytes, into.nbytes):
            root.merge_into(into)
            return
        source.storage.used_at(end)
        into.used_at(end)
        self.code.append(Copy(target, source))

    def _same_dims(self, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
        return len(a) == len(b) and all(map(self.equal, a, b))

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two extents are the same, as far as can be told."""
        if isinstance(a, n.IntImm) and isinstance(b, n.IntImm):
            return a.value == b.value
        return a.dtype == b.dtype and self._analyzer.can_prove_equal(a, b)

    def _allocated(self, dims: Sequence[PrimExpr], dtype: str) -> NativeTensor:
        return NativeTensor(self.storage(bytes_of(dims, dtype)), tuple(dims), dtype)

    def shown(self, extent: PrimExpr) -> str:
        """An extent in a message: a number, or in braces an expression over what the caller passes."""
        if isinstance(extent, n.IntImm):
            return str(extent.value)
        try:
            return "{" + extent_text(extent, self.own.symbols) + "}"
        except CodegenError:
            return "another"

    def storage(self, nbytes: PrimExpr) -> NativeStorage:
        """New memory of the function's own."""
        made = NativeStorage(simplified(nbytes, self._analyzer), None, self._scope)
        if mentions(made.nbytes, self.late):
            size = as_float(made.nbytes)
            fits = ops.logical_and(ops.greater_equal(size, 0.0), ops.less_equal(size, MOST_BYTES))
            self.check(fits, f"{self.name}: the graph computes a shape that no array can have")
            made.place = n.Var("late", "handle")
            self._emit(Reserve(made, Cell.of(0)))
            return made
        self.storages.append(made)
        return made

    # -------------------------------------------------------------------------------- calls

    def _call(self, call: r.Call) -> Value:
        match call.op:
            case Op(name="relax.call_builtin_with_ctx"):
                callee, args = call.args
                assert isinstance(callee, r.ExternFunc)
                fields = args.fields if isinstance(args, r.Tuple) else ()
                return self._named(callee.global_symbol, fields)
            case Op():
                if call.op.name == "relax.vm.kill_object" or call.op.name.startswith("relax.memory.kill_"):
                    return NOTHING
                raise NotNative(f"the operator {call.op.name}")
            case r.ExternFunc():
                return self._named(call.op.global_symbol, call.args)
            case GlobalVar():
                return self._function(call.op.name_hint, [self._value(arg) for arg in call.args])
        raise NotNative("a call of a closure")

    def _named(self, name: str, args: Sequence[RelaxExpr]) -> Value:
        if name in self.around.kernels or name in self.around.graphs:
            return self._function(name, [self._value(arg) for arg in args])
        if not name.startswith("vm.builtin."):
            raise NotNative(f"the packed function {name}")
        rule = RULES.get(name.removeprefix("vm.builtin."))
        if rule is None:
            raise NotNative(f"{name}, which the interpreter does")
        return rule(self, *[self._value(arg) for arg in args])

    def _function(self, name: str, args: list[Value]) -> Value:
        func = self.around.graphs.get(name)
        if func is not None:
            return self._graph(name, func, args)
        self._invoke(name, self.around.header(name), args, lambda i: f"{self.name}: argument {i} of the kernel {name}")
        return NOTHING

    def _invoke(self, name: str, header: FunctionHeader, args: Sequence[Value], what: Callable[[int], str]) -> None:
        flat = list(leaves(tuple(args)))
        given: list[NativeTensor | PrimExpr] = []
        for value in flat:
            if isinstance(value, ShapeValue):
                given += value.dims
            elif isinstance(value, NativeTensor | PrimExpr):
                given.append(value)
            else:
                raise NotNative(f"{name} is given what is neither an array nor a number")
        implicit = fitted(header, given, lambda test, i: self.check(test, f"{what(i)} has a shape that does not fit"))
        for position in self.around.written(name):
            target = given[position]
            assert isinstance(target, NativeTensor)
            storage = target.storage.root
            if isinstance(storage.place, int):
                raise NotNative(f"{name} writes a constant")
            self.written.add(storage)
        self._use(*given)
        passed = [v if isinstance(v, NativeTensor) else ops.cast(p.dtype, v) for p, v in zip(header.params, given)]
        self._emit(Invoke(name, (*passed, *implicit)))

    def _graph(self, name: str, func: r.Function, args: list[Value]) -> Value:
        """The call of another graph function: its results are memory of this one."""
        own = GraphHeader(name, func)
        values = Values()
        for param, arg in zip(func.params, args):
            if (why := unify(param.struct_info, _info(arg), values)) is not None:
                raise NotNative(f"{name} is called with an argument that does not fit: {why}")
        result = self._result(func.ret_struct_info, values, own)
        outs = [leaf.cell.array if isinstance(leaf, Merged) else leaf for leaf in leaves(result)]
        for leaf in outs:
            assert isinstance(leaf, NativeTensor)
            own.buffer("result", [n.Var("any", "int64") for _ in leaf.dims], leaf.dtype)
        first = len(own.params) - len(outs)
        header = FunctionHeader(tuple(own.params), own.buffers, own.header.implicit)
        self.calls.add(name)
        self._invoke(
            name, header, [*args, *outs], lambda i: f"{name}: argument {own.names[i]!r}" if i < first else name
        )
        return self._opened(result)

    def _result(self, info: r.StructInfo, values: Values, called: GraphHeader) -> Value:
        """Memory for a function's result; a cell if its declaration does not tell the shape."""
        match info:
            case r.TensorStructInfo() if info.dtype and called.tells(info):
                dims = tuple([replaced(extent, values.found.get) for extent in info.dims or ()])
                return self._allocated(dims, info.dtype)
            case r.TensorStructInfo() if info.dtype and info.ndim >= 0:
                return Merged(Cell.of(info.ndim), info.dtype)
            case r.TupleStructInfo():
                return tuple([self._result(item, values, called) for item in info.fields])
        raise NotNative(f"the call of {called.name}, the rank or type of whose result is not known")


def _info(value: Value) -> r.StructInfo | None:
    match value:
        case NativeTensor():
            return r.TensorStructInfo(value.dims, value.dtype)  # type: ignore[arg-type]
        case ShapeValue():
            return r.ShapeStructInfo(value.dims)
        case tuple():
            fields = [_info(item) for item in value]
            known = [field for field in fields if field is not None]
            return r.TupleStructInfo(tuple(known)) if len(known) == len(fields) else None
    return None
