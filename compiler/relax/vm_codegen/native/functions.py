"""Choose the graph functions that become machine code, and say why others do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.codegen.llvm.module import written_buffers
from compiler.errors import CodegenError
from compiler.ir.module import IRModule
from compiler.relax.nodes import Constant, Function
from compiler.relax.vm_codegen.native.loop_trace import follow_loop
from compiler.relax.vm_codegen.native.loops import loops_of
from compiler.relax.vm_codegen.native.trace import FunctionTrace, Surroundings
from compiler.relax.vm_codegen.native.values import NotNative
from compiler.relax.vm_codegen.native.write import CompiledGraph, GraphWriter
from compiler.tir import nodes as n
from compiler.tir.intrin.graph import CHECKS, CONSTANTS


@dataclass(frozen=True, slots=True)
class NativeFunctions:
    """The functions that became machine code, and why others did not: a line for each call in the way."""

    functions: Mapping[str, CompiledGraph]
    interpreted: tuple[str, ...]


def native_functions(mod: IRModule, constant: Callable[[Constant], int]) -> NativeFunctions:
    """Make functions of a lowered module's graph functions.
    `constant` gives an array's number in the executable."""
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
    traces: dict[str, FunctionTrace] = {}
    loops = loops_of(graphs)
    for name, graph in graphs.items():
        if name in loops.inner:
            continue
        try:
            if name in loops.recursive:  # the interpreter counts how deep it is; machine code would leave its stack
                raise NotNative("a function that calls itself, and goes on after it")
            body = loops.bodies.get(name)
            traces[name] = (
                FunctionTrace(name, graph, around) if body is None else follow_loop(name, body, graph, around)
            )
        except NotNative as error:
            why[name] = error.every
    made: dict[str, CompiledGraph] = {}
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
                    made[name] = GraphWriter(trace, graphs[name], is_called=name in called).function()
                except CodegenError as error:
                    why[name] = [error.message]
        if not any(name in traces for name in why):
            break
        traces = {name: trace for name, trace in traces.items() if name not in why}
        made = {name: function for name, function in made.items() if name in traces}
    checks = tuple(around.checks)
    functions = {name: f.with_attrs({CHECKS: checks, CONSTANTS: around.constants}) for name, f in made.items()}
    return NativeFunctions(functions, tuple(f"{name}: {line}" for name in graphs for line in why.get(name, ())))
