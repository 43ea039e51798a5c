"""Parallel loops: the body becomes a function that the runtime's thread pool calls task by task.

The pool calls `void task(i64 number, ptr context)`, which unpacks the values the body uses and calls the body's
function with them as arguments. So the body's pointers are marked as not overlapping, as the kernel's are.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.llvm.gen import Gen, KernelStorage
from compiler.codegen.llvm.types import llvm_type
from compiler.codegen.llvm.writer import FunctionWriter, Operand
from compiler.ir.visit import walk
from compiler.tir import nodes as n


def emit_parallel(g: Gen, loop: n.For, low: Operand, extent: Operand, emit: Callable[[Gen, n.Stmt], None]) -> None:
    """Run `loop` on the thread pool, with one task for each iteration."""
    captured = _captured(g, loop.body)
    inner = _inner(g, loop, low, captured)
    w = g.w
    name = f"{g.symbol}.par{len(g.module.functions)}"
    fields = [("i32", "0"), *((ty, text) for _, ty, text in captured)]  # the first tells of failures
    if type(low) is str:
        fields.append(("i64", low))
    body_params = ", ".join(_parameter(g, ty, name) for ty, name in _parameters(captured, low))
    head = ", ".join(["i64 %task", *([body_params] if body_params else [])])
    inner.w.signature = f'define internal i32 @"{name}.body"({head})'
    g.module.functions.append("")  # holds the place, so that names stay unique
    place = len(g.module.functions) - 1
    emit(inner, loop.body)
    g.module.functions[place] = inner.w.text() + "\n" + _task(name, [ty for ty, _ in fields])
    struct = "{ " + ", ".join(ty for ty, _ in fields) + " }"
    context = w.fresh("ctx")
    w.allocas.append(f"  {context} = alloca {struct}, align 8")
    w.level_of[context] = 0
    for position, (ty, text) in enumerate(fields):
        where = w.value(f"getelementptr {struct}, ptr {context}, i32 0, i32 {position}", context)
        w.effect(f"store {ty} {text}, ptr {where}, align 8")
    g.module.declare("@tunefarm_parallel_for", "i32 @tunefarm_parallel_for(ptr, ptr, i64) nounwind")
    w.effect(f'call i32 @tunefarm_parallel_for(ptr @"{name}", ptr {context}, i64 {extent})')
    w.loaded.clear()
    if inner.w.can_fail:
        code = w.inline(f"load i32, ptr {context}, align 8")
        w.fail_unless(w.inline(f"icmp eq i32 {code}, 0"), code)


Captured = tuple[tuple[n.Var, ...], str, str]
"""Variables used in the body that hold one value, the type of that value, and the value outside."""


def _captured(g: Gen, body: n.Stmt) -> list[Captured]:
    """Return what the body needs from outside, pointers first; known integers need not travel."""
    used: dict[n.Var, None] = {}
    for node in walk(body):
        match node:
            case n.Var():
                used[node] = None
            case n.BufferLoad() | n.BufferStore():
                used[node.buffer.data] = None
            case _:
                pass
    pointers: dict[str, tuple[n.Var, ...]] = {}
    for var in used:
        if var in g.storage:  # one argument a pointer, else two of them would claim not to overlap
            pointer = g.storage[var].pointer
            pointers[pointer] = (*pointers.get(pointer, ()), var)
    found: list[Captured] = [(names, "ptr", pointer) for pointer, names in pointers.items()]
    for var in used:
        held = g.index_vars.get(var)
        if type(held) is str:
            found.append(((var,), "i64", held))
        if var in g.value_vars:
            found.append(((var,), llvm_type(var.dtype), g.value_vars[var]))
    return found


def _inner(g: Gen, loop: n.For, low: Operand, captured: list[Captured]) -> Gen:
    """The state for writing the body: every captured value is a parameter."""
    w = FunctionWriter("")
    inner = Gen(g.module, w, g.forms, g.symbol, g.noalias, parallel=False, nontemporal=g.nontemporal)
    inner.index_vars.update((v, x) for v, x in g.index_vars.items() if type(x) is int)
    for position, (names, ty, outside) in enumerate(captured):
        name = f"%p{position}"
        w.level_of[name] = 0
        for var in names:
            if ty == "ptr" and var in g.storage:
                inner.storage[var] = KernelStorage(name, g.storage[var].elements)
            elif g.index_vars.get(var) == outside and var not in inner.index_vars:
                inner.index_vars[var] = name
            else:
                inner.value_vars[var] = name
    w.level_of["%task"] = 0
    start: Operand = low
    if type(low) is str:
        start = f"%p{len(captured)}"
        w.level_of[start] = 0
    inner.index_vars[loop.loop_var] = w.iadd("%task", start)
    return inner


def _parameters(captured: list[Captured], low: Operand) -> list[tuple[str, str]]:
    params = [(ty, f"%p{i}") for i, (_, ty, _) in enumerate(captured)]
    if type(low) is str:
        params.append(("i64", f"%p{len(captured)}"))
    return params


def _parameter(g: Gen, ty: str, name: str) -> str:
    return f"{ty}{' noalias align 64' if ty == 'ptr' and g.noalias else ''} {name}"


def _task(name: str, types: list[str]) -> str:
    """The function the pool calls: unpack the context, call the body, note a failure in the first field."""
    struct = "{ " + ", ".join(types) + " }"
    lines = [f'define internal void @"{name}"(i64 %task, ptr %context) #0 {{', "entry:"]
    for i, ty in enumerate(types[1:]):
        lines.append(f"  %a{i} = getelementptr {struct}, ptr %context, i32 0, i32 {i + 1}")
        lines.append(f"  %p{i} = load {ty}, ptr %a{i}, align 8")
    arguments = ", ".join(["i64 %task", *(f"{ty} %p{i}" for i, ty in enumerate(types[1:]))])
    lines += [
        f'  %code = call i32 @"{name}.body"({arguments})',
        "  %fine = icmp eq i32 %code, 0",
        "  br i1 %fine, label %done, label %failed",
        "failed:",
        "  store atomic i32 %code, ptr %context monotonic, align 8",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)
