"""Graph functions as functions of machine code, in the IR of kernels: what runs them calls kernels directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.codegen.llvm.module import written_buffers
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.lower.blocks.shape_vars import extent_text, shape_vars
from compiler.relax.nodes import Constant, Function
from compiler.relax.nodes.dims import int64
from compiler.relax.vm_codegen.native.arena import plan
from compiler.relax.vm_codegen.native.trace import Surroundings, Trace
from compiler.relax.vm_codegen.native.values import (
    Branch,
    Check,
    Copy,
    Instruction,
    Invoke,
    NotNative,
    Storage,
    Tensor,
    bytes_of,
    leaves,
)
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.graph import (
    CHECKS,
    CONSTANTS,
    RESULTS,
    WRITTEN,
    graph_check,
    graph_constant,
    graph_copy,
    graph_value,
)
from compiler.tir.nodes import PrimExpr, Stmt


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A graph function in the IR of kernels. `results`: for each array of what it gives, in order, the number of the
    result that it is, or -1 - the number of the argument that it is."""

    func: n.PrimFunc
    results: tuple[int, ...]

    def with_attrs(self, attrs: Mapping[str, Any]) -> NativeFunction:
        """The function with more said about it."""
        func = self.func
        for name, value in attrs.items():
            func = func.with_attr(name, value)
        return NativeFunction(func, self.results)


@dataclass(frozen=True, slots=True)
class NativeFunctions:
    """What of a module became machine code, and why the rest did not: a line for each call in the way."""

    functions: Mapping[str, NativeFunction]
    interpreted: tuple[str, ...]


def native_functions(mod: IRModule, constant: Callable[[Constant], int]) -> NativeFunctions:
    """Make functions of a lowered module's graph functions. `constant` gives an array's number in the executable."""
    graphs = {g.name_hint: f for g, f in mod.items() if isinstance(f, Function) and f.body is not None}
    kernels = {g.name_hint: f for g, f in n.prim_funcs(mod).items()}
    known: dict[str, frozenset[int]] = {}

    def written(name: str) -> frozenset[int]:
        func = kernels.get(name)
        if func is None:
            return frozenset()
        if name not in known:
            stored = written_buffers(func)
            buffers = [func.buffer_map.get(param) for param in func.params]
            known[name] = frozenset(i for i, buffer in enumerate(buffers) if buffer and buffer.data in stored)
        return known[name]

    around = Surroundings(kernels, graphs, written, constant)
    why: dict[str, Sequence[str]] = {}
    traces: dict[str, Trace] = {}
    for name, graph in graphs.items():
        try:
            traces[name] = Trace(name, graph, around)
        except NotNative as error:
            why[name] = error.every
    made: dict[str, NativeFunction] = {}
    while True:
        called = {callee for trace in traces.values() for callee in trace.calls}
        gone = {name: missing for name, trace in traces.items() if (missing := sorted(trace.calls - traces.keys()))}
        why |= {
            name: [f"a call of {callee}, which the interpreter runs" for callee in missing]
            for name, missing in gone.items()
        }
        for name, trace in traces.items():
            if name not in made and name not in why:
                try:
                    made[name] = _Writer(trace, shares_arguments=name not in called).function()
                except CodegenError as error:
                    why[name] = [error.message]
        if not any(name in traces for name in why):
            break
        traces = {name: trace for name, trace in traces.items() if name not in why}
        made = {name: function for name, function in made.items() if name in traces}
    checks = tuple(around.checks)
    functions = {name: f.with_attrs({CHECKS: checks, CONSTANTS: around.constants}) for name, f in made.items()}
    return NativeFunctions(functions, tuple(f"{name}: {line}" for name in graphs for line in why.get(name, ())))


class _Writer:
    """Writes a function that was followed. `shares_arguments`: what it gives may be its arguments themselves."""

    def __init__(self, trace: Trace, *, shares_arguments: bool) -> None:
        self._trace = trace
        self._shares_arguments = shares_arguments
        self._arena = n.Var("arena", "handle")
        self._copies: list[Copy] = []

    def function(self) -> NativeFunction:
        """The function. Raises NotNative where its results' shapes cannot be told."""
        trace = self._trace
        arguments = {
            leaf.storage: i for i, leaf in enumerate(leaves(tuple(trace.own.values))) if isinstance(leaf, Tensor)
        }
        positions = self._positions()
        written = tuple(sorted(positions[arguments[s]] for s in trace.written if s in arguments))
        if written and not self._shares_arguments:
            raise NotNative("writing an argument that another function of the graph passes")
        numbers, count = [], 0
        for leaf in leaves(trace.result):
            if not isinstance(leaf, Tensor):
                raise NotNative("a result that is no array")
            index = self._argument(leaf, arguments)
            if index is None:
                numbers.append(count)
                self._result(leaf, count)
                count += 1
            else:
                numbers.append(-1 - positions[index])
        body = self._body()
        attrs = {"global_symbol": trace.name, RESULTS: count, **({WRITTEN: written} if written else {})}
        func = n.PrimFunc(tuple(trace.own.params), body, None, trace.own.buffers, attrs)
        try:
            shape_vars(func)
            for buffer in func.buffer_map.values():
                for extent in buffer.shape:
                    extent_text(extent, {})
        except CodegenError as error:
            raise NotNative(f"a result whose shape the arguments do not tell: {error.message}") from None
        return NativeFunction(func, tuple(numbers))

    def _positions(self) -> list[int]:
        """For each value that the function takes, with shapes as one, the position of its parameter."""
        positions, at = [], 0
        for leaf in leaves(tuple(self._trace.own.values)):
            positions.append(at)
            at += 1 if isinstance(leaf, Tensor | PrimExpr) else len(leaf.dims)  # type: ignore[union-attr]
        return positions

    def _argument(self, leaf: Tensor, arguments: Mapping[Storage, int]) -> int | None:
        """Which argument a result is, whole and in the same shape; None where it is none."""
        if not self._shares_arguments:
            return None
        index = arguments.get(leaf.storage.root)
        given = list(leaves(tuple(self._trace.own.values)))[index] if index is not None else None
        same = isinstance(given, Tensor) and len(given.dims) == len(leaf.dims) and given.dtype == leaf.dtype
        if isinstance(given, Tensor) and same and all(map(self._trace.equal, given.dims, leaf.dims)):
            return index
        return None

    def _result(self, leaf: Tensor, number: int) -> None:
        """Have the result computed where the caller wants it, or copied there at the end."""
        own = self._trace.own
        place = own.buffer(f"result_{number}" if number else "result", leaf.dims, leaf.dtype)
        root = leaf.storage.root
        starts = isinstance(leaf.offset, n.IntImm) and leaf.offset.value == 0
        fresh = root.place is None and root in self._trace.storages and starts
        if fresh and self._trace.equal(root.nbytes, bytes_of(leaf.dims, leaf.dtype)):
            root.place = place
            return
        target = Tensor(Storage(leaf.nbytes, place), leaf.dims, leaf.dtype)
        self._trace.copy(target, leaf)

    # ---------------------------------------------------------------------------------- text

    def _body(self) -> Stmt:
        trace = self._trace
        arena = plan(trace.storages)
        body = self._statements(trace.code)
        if not (isinstance(arena.nbytes, n.IntImm) and arena.nbytes.value == 0):
            body = n.Allocate(self._arena, "uint8", (arena.nbytes,), ops.const(True), body)
        for var, value in reversed(arena.numbers):
            body = n.LetStmt(var, value, body)
        return body

    def _statements(self, code: Sequence[Instruction]) -> Stmt:
        made = [self._statement(instruction) for instruction in code]
        if not made:
            return n.Evaluate(ops.const(0))
        return made[0] if len(made) == 1 else n.SeqStmt(tuple(made))

    def _statement(self, instruction: Instruction) -> Stmt:
        match instruction:
            case Invoke(name, args):
                given = tuple([self._address(a) if isinstance(a, Tensor) else a for a in args])
                return n.Evaluate(n.Call("int32", GlobalVar(name), given))
            case Check(condition, number):
                return graph_check(self._condition(condition), number)
            case Copy(target, source):
                return graph_copy(self._address(target), self._address(source), source.nbytes)
            case Branch(condition, yes, no):
                return n.IfThenElse(self._condition(condition), self._statements(yes), self._statements(no))

    def _condition(self, condition: PrimExpr | Tensor) -> PrimExpr:
        value = graph_value(condition.dtype, self._address(condition)) if isinstance(condition, Tensor) else condition
        return value if value.dtype == "bool" else ops.not_equal(value, ops.const(0, value.dtype))

    def _address(self, tensor: Tensor) -> PrimExpr:
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
        element = n.Call("uint8", Op.get("tir.type_annotation"), ())
        return n.Call("handle", Op.get("tir.tvm_access_ptr"), (element, base, offset, int64(0), ops.const(3)))
