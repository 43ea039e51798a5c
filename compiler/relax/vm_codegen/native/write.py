"""Write a graph function in the IR of kernels, whose code calls kernels directly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar, Op
from compiler.lower.blocks.shape_vars import extent_text, shape_vars
from compiler.relax.nodes import Function, StructInfo, TensorStructInfo, TupleStructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.vm_codegen.native.arena import plan
from compiler.relax.vm_codegen.native.loop_trace import LoopTrace
from compiler.relax.vm_codegen.native.trace import FunctionTrace
from compiler.relax.vm_codegen.native.values import (
    Branch,
    Cell,
    Check,
    Copy,
    Exit,
    Fill,
    Instruction,
    Invoke,
    Loop,
    NativeStorage,
    NativeTensor,
    NotNative,
    Open,
    Read,
    Reserve,
    Value,
    bytes_of,
    leaves,
)
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.graph import (
    CELL_HEAD,
    CELL_SCOPE,
    CELLS,
    RESULTS,
    WORD_BYTES,
    WRITTEN,
    graph_check,
    graph_constant,
    graph_copy,
    graph_put,
    graph_reserve,
    graph_value,
)
from compiler.tir.nodes import PrimExpr, Stmt


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A graph function in the IR of kernels.
    `results` has an entry for each array of its result, in order. It is the number of the entry's result, or -1 - the
    number of the argument that it is."""

    func: n.PrimFunc
    results: tuple[int, ...]

    def with_attrs(self, attrs: Mapping[str, Any]) -> CompiledGraph:
        """The function with more said about it."""
        func = self.func
        for name, value in attrs.items():
            func = func.with_attr(name, value)
        return CompiledGraph(func, self.results)


class GraphWriter:
    """Write a function that was followed.
    `is_called` says that others of the module call it; its results are then never its arguments themselves."""

    def __init__(self, trace: FunctionTrace, func: Function, *, is_called: bool) -> None:
        self._trace = trace
        self._is_called = is_called
        self._declared = list(_tensors(func.ret_struct_info))
        self._arena = n.Var("arena", "handle")
        self._targets: list[Cell | NativeTensor] = []
        self._dtypes: list[str] = []
        self._shared: dict[Reserve, Cell] = {}

    def function(self) -> CompiledGraph:
        """The function. Raises NotNative where its results cannot be given to a caller."""
        trace = self._trace
        arguments = {
            leaf.storage: i for i, leaf in enumerate(leaves(tuple(trace.own.values))) if isinstance(leaf, NativeTensor)
        }
        positions = self._positions()
        written = tuple(sorted(positions[arguments[s]] for s in trace.written if s in arguments))
        if written and self._is_called:
            raise NotNative("writing an argument that another function of the graph passes")
        if isinstance(trace, LoopTrace):
            numbers = self._loop_results(trace)
        else:
            numbers = self._results(arguments, positions)
        own = trace.own
        first = len(own.params) - len(self._targets)
        cells = tuple(
            [
                (first + number, dtype, target.ndim)
                for number, (target, dtype) in enumerate(zip(self._targets, self._dtypes))
                if isinstance(target, Cell)
            ]
        )
        body = self._body()
        attrs = {"global_symbol": trace.name, RESULTS: len(self._targets), **({WRITTEN: written} if written else {})}
        func = n.PrimFunc(tuple(own.params), body, None, own.buffers, {**attrs, **({CELLS: cells} if cells else {})})
        try:
            shape_vars(func)
            for buffer in func.buffer_map.values():
                for extent in buffer.shape:
                    extent_text(extent, {})
        except CodegenError as error:
            raise NotNative(f"a result whose shape the arguments do not tell: {error.message}") from None
        return CompiledGraph(func, tuple(numbers))

    def _positions(self) -> list[int]:
        """For each value that the function takes, with shapes as one, the position of its parameter."""
        positions, at = [], 0
        for leaf in leaves(tuple(self._trace.own.values)):
            positions.append(at)
            at += 1 if isinstance(leaf, NativeTensor | PrimExpr) else len(leaf.dims)  # type: ignore[union-attr]
        return positions

    # ------------------------------------------------------------------------------- results

    def _results(self, arguments: Mapping[NativeStorage, int], positions: Sequence[int]) -> list[int]:
        numbers = []
        for place, leaf in enumerate(leaves(self._trace.result)):
            if not isinstance(leaf, NativeTensor):
                raise NotNative("a result that is no array")
            index = self._argument(leaf, arguments)
            if index is None:
                numbers.append(len(self._targets))
                self._result(leaf, place)
            else:
                numbers.append(-1 - positions[index])
        return numbers

    def _argument(self, leaf: NativeTensor, arguments: Mapping[NativeStorage, int]) -> int | None:
        """Which argument a result is, whole and in the same shape; None where it is none."""
        if self._is_called:
            return None
        index = arguments.get(leaf.storage.root)
        given = list(leaves(tuple(self._trace.own.values)))[index] if index is not None else None
        same = isinstance(given, NativeTensor) and len(given.dims) == len(leaf.dims) and given.dtype == leaf.dtype
        if isinstance(given, NativeTensor) and same and all(map(self._trace.equal, given.dims, leaf.dims)):
            return index
        return None

    def _result(self, leaf: NativeTensor, place: int) -> None:
        """Have the result computed where the caller wants it, or copied there at the end."""
        target = self._target(place, [leaf])
        if isinstance(target, Cell):
            self._trace.fill(target, leaf)
            return
        root = leaf.storage.root
        starts = isinstance(leaf.offset, n.IntImm) and leaf.offset.value == 0
        fresh = root.place is None and root in self._trace.storages and starts
        if fresh and self._trace.equal(root.nbytes, bytes_of(leaf.dims, leaf.dtype)):
            root.place = target.storage.place
            return
        self._trace.copy(target, leaf)

    def _loop_results(self, trace: LoopTrace) -> list[int]:
        """Where the ends of a loop put what they give."""
        given = [list(leaves(value)) for value in trace.exits]
        if not given or any(not isinstance(leaf, NativeTensor) for values in given for leaf in values):
            raise NotNative("a loop that gives what is no array")
        for place, values in enumerate(zip(*given)):
            self._target(place, values)
        return list(range(len(self._targets)))

    def _target(self, place: int, given: Sequence[Value]) -> Cell | NativeTensor:
        """The parameter of a result: an array, or a cell where the arguments do not tell its shape.

        `given` are the arrays that may be it. Callers within the module go by the declared shape.
        """
        arrays = [leaf for leaf in given if isinstance(leaf, NativeTensor)]
        first, own, trace = arrays[0], self._trace.own, self._trace
        if any(len(a.dims) != len(first.dims) or a.dtype != first.dtype for a in arrays):
            raise NotNative("ends of a loop that give other ranks or types")
        declared = self._declared[place] if place < len(self._declared) else TensorStructInfo()
        told = own.tells(declared) and len(declared.dims or ()) == len(first.dims)
        known = not any(trace.is_late(extent) for a in arrays for extent in a.dims)
        known = known and all(all(map(trace.equal, a.dims, first.dims)) for a in arrays)
        name = f"result_{len(self._targets)}" if self._targets else "result"
        target: Cell | NativeTensor
        if told if self._is_called else known or told:
            dims = first.dims if known else self._checked(arrays, tuple(declared.dims or ()))
            target = NativeTensor(NativeStorage(first.nbytes, own.buffer(name, dims, first.dtype)), dims, first.dtype)
        else:
            words = (int64(CELL_HEAD + len(first.dims)),)
            target = Cell(own.buffer(name, words, "int64"), len(first.dims), owned=False)
        self._targets.append(target)
        self._dtypes.append(first.dtype)
        return target

    def _checked(self, arrays: Sequence[NativeTensor], dims: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The declared extents of a result; an array of unknown shape is checked against them."""
        if isinstance(self._trace, LoopTrace):
            raise NotNative("a loop whose result is declared with extents that are found out later")
        for array in arrays:
            for extent, wanted in zip(array.dims, dims):
                if not self._trace.equal(extent, wanted):
                    message = f"{self._trace.name}: a result has another shape than is declared"
                    self._trace.check(ops.equal(extent, wanted), message)
        return dims

    # ---------------------------------------------------------------------------------- text

    def _body(self) -> Stmt:
        trace = self._trace
        arena = plan(trace.storages)
        self._share_cells(trace.code)
        body = self._statements(trace.code)
        for cell in dict.fromkeys(cell for cell in _cells(trace.code) if cell.owned):
            words = int64(CELL_HEAD + cell.ndim)
            body = n.Allocate(cell.base, "int64", (words,), ops.const(True), body, CELL_SCOPE)
        if not (isinstance(arena.nbytes, n.IntImm) and arena.nbytes.value == 0):
            body = n.Allocate(self._arena, "uint8", (arena.nbytes,), ops.const(True), body)
        for var, value in reversed(arena.numbers):
            body = n.LetStmt(var, value, body)
        return body

    def _statements(self, code: Sequence[Instruction]) -> Stmt:
        """The instructions, where names hold for all that comes after them."""
        made: list[Stmt] = []
        for instruction in reversed(code):
            named = self._named(instruction)
            if named is None:
                made.append(self._statement(instruction))
                continue
            body = _sequence(made[::-1])
            for var, value in reversed(named):
                body = n.LetStmt(var, value, body)
            made = [body]
        return _sequence(made[::-1])

    def _named(self, instruction: Instruction) -> list[tuple[n.Var, PrimExpr]] | None:
        """The names that an instruction makes; None for one that does something else."""
        match instruction:
            case Read(var, source):
                return [(var, graph_value("int64", self._address(source)))]
            case Reserve(storage):
                assert isinstance(storage.place, n.Var)
                return [(storage.place, graph_reserve(self._shared[instruction].base, storage.nbytes))]
            case Open(cell, address, dims):
                words = [(dim, graph_value("int64", _word(cell, axis))) for axis, dim in enumerate(dims)]
                return [(address, graph_value("handle", cell.base)), *words]
        return None

    def _statement(self, instruction: Instruction) -> Stmt:
        match instruction:
            case Invoke(name, args):
                given = tuple([self._address(a) if isinstance(a, NativeTensor) else a for a in args])
                return n.Evaluate(n.Call("int32", GlobalVar(name), given))
            case Check(condition, number):
                return graph_check(self._condition(condition), number)
            case Copy(target, source):
                return graph_copy(self._address(target), self._address(source), source.nbytes)
            case Branch(condition, yes, no):
                return n.IfThenElse(self._condition(condition), self._statements(yes), self._statements(no))
            case Fill(cell, dims, source):
                return self._fill(cell, dims, source)
            case Loop(body, going):
                again = ops.not_equal(graph_value("int64", _word(going, 0)), int64(0))
                return _sequence([graph_put(_word(going, 0), int64(1)), n.While(again, self._statements(body))])
            case Exit(value, going):
                return _sequence([*self._given(value), graph_put(_word(going, 0), int64(0))])
            case Read() | Reserve() | Open():
                raise AssertionError("a name is no statement")

    def _fill(self, cell: Cell, dims: Sequence[PrimExpr], source: NativeTensor | None) -> Stmt:
        extents = [graph_put(_word(cell, axis), extent) for axis, extent in enumerate(dims)]
        if source is None:
            return _sequence(extents)
        address = n.Var("filled", "handle")
        copy = graph_copy(address, self._address(source), source.nbytes)
        return n.LetStmt(address, graph_reserve(cell.base, source.nbytes), _sequence([copy, *extents]))

    def _given(self, value: Value) -> list[Stmt]:
        """Return what a loop gives, put where the caller wants it."""
        made = []
        for leaf, target in zip(leaves(value), self._targets):
            assert isinstance(leaf, NativeTensor)
            if isinstance(target, Cell):
                made.append(self._fill(target, leaf.dims, leaf))
            else:
                made.append(graph_copy(self._address(target), self._address(leaf), leaf.nbytes))
        return made

    def _share_cells(self, code: Sequence[Instruction]) -> None:
        """Let storages that are not in use at the same time share a cell."""
        taken: list[tuple[Cell, int]] = []
        for instruction in _reserved(code):
            storage = instruction.storage
            free = next((at for at, (_, last) in enumerate(taken) if last < storage.first), None)
            cell = instruction.cell if free is None else taken.pop(free)[0]
            taken.append((cell, storage.last))
            self._shared[instruction] = cell

    def _condition(self, condition: PrimExpr | NativeTensor) -> PrimExpr:
        value = (
            graph_value(condition.dtype, self._address(condition)) if isinstance(condition, NativeTensor) else condition
        )
        return value if value.dtype == "bool" else ops.not_equal(value, ops.const(0, value.dtype))

    def _address(self, tensor: NativeTensor) -> PrimExpr:
        root = tensor.storage.root
        match root.place:
            case n.Var() as base:
                offset = tensor.offset
            case int(number):
                if isinstance(tensor.offset, n.IntImm) and tensor.offset.value == 0:
                    return graph_constant(number)
                raise NotNative("a part of a constant")
            case _:
                base, offset = self._arena, ops.add(root.offset, tensor.offset)
        if isinstance(offset, n.IntImm) and offset.value == 0 and base is not self._arena:
            return base
        return _behind(base, offset)


def _tensors(info: StructInfo) -> Iterator[TensorStructInfo]:
    """The arrays that a value consists of, as far as they are declared."""
    match info:
        case TensorStructInfo():
            yield info
        case TupleStructInfo():
            for field in info.fields:
                yield from _tensors(field)


def _sequence(statements: Sequence[Stmt]) -> Stmt:
    if not statements:
        return n.Evaluate(ops.const(0))
    return statements[0] if len(statements) == 1 else n.SeqStmt(tuple(statements))


def _word(cell: Cell, axis: int) -> PrimExpr:
    """The address of an extent in a cell."""
    return _behind(cell.base, int64(WORD_BYTES * (CELL_HEAD + axis)))


def _behind(base: n.Var, offset: PrimExpr) -> PrimExpr:
    """An address by its distance from another in bytes."""
    element = n.Call("uint8", Op.get("tir.type_annotation"), ())
    return n.Call("handle", Op.get("tir.tvm_access_ptr"), (element, base, offset, int64(0), ops.const(3)))


def _inside(code: Sequence[Instruction]) -> Iterator[Instruction]:
    """The instructions, and those in their branches and loops, in order."""
    for instruction in code:
        yield instruction
        match instruction:
            case Branch(_, yes, no):
                yield from _inside(yes)
                yield from _inside(no)
            case Loop(body):
                yield from _inside(body)


def _reserved(code: Sequence[Instruction]) -> Iterator[Reserve]:
    for instruction in _inside(code):
        if isinstance(instruction, Reserve):
            yield instruction


def _cells(code: Sequence[Instruction]) -> Iterator[Cell]:
    """The cells that instructions mention."""
    for instruction in _inside(code):
        match instruction:
            case Reserve(_, cell) | Fill(cell) | Open(cell):
                yield cell
            case Loop(_, going):
                yield going
            case _:
                pass
