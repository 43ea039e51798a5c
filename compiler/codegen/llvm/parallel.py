"""Parallel loops: the body becomes a function that the runtime's thread pool calls task by task.

The pool calls `void task(i64 number, ptr context)`, which unpacks the values the body uses and calls the body's
function with them as arguments. So the body's pointers are marked as not overlapping, as the kernel's are. Loops that
run side by side have one such function each, and one more that looks up which of them a task's number means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from compiler.codegen.llvm.gen import Gen, KernelStorage
from compiler.codegen.llvm.types import llvm_type
from compiler.codegen.llvm.writer import FunctionWriter, Operand
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.side_by_side import order_of_tasks

Emit: TypeAlias = Callable[[Gen, n.Stmt], None]
"""Writes a statement."""


def emit_parallel(g: Gen, loop: n.For, low: Operand, extent: Operand, emit: Emit) -> None:
    """Run `loop` on the thread pool, with one task for each iteration."""
    tasks = _tasks_of(g, loop, low, emit)
    _launch(g, tasks.name, tasks.context, extent)
    tasks.fail_if_failed(g)


def emit_side_by_side(g: Gen, loops: Sequence[n.For], threads: int, emit: Emit) -> None:
    """Run loops that do not depend on each other in one launch of the thread pool.

    `loops` begin at numbers that are known, and have extents that are.
    """
    made = [_tasks_of(g, loop, _known(loop.min), emit) for loop in loops]
    struct = "{ " + ", ".join(["ptr"] * len(made)) + " }"
    contexts = _stored(g.w, struct, [("ptr", tasks.context) for tasks in made])
    name = f"{g.symbol}.side{len(g.module.functions)}"
    order = order_of_tasks([_known(loop.extent) for loop in loops], threads)
    g.module.functions.append(_choosing(name, struct, [tasks.name for tasks in made], order))
    _launch(g, name, contexts, len(order))
    for tasks in made:
        tasks.fail_if_failed(g)


@dataclass(frozen=True, slots=True)
class _Tasks:
    """A written loop: the function that the pool calls, and the pointer that it gets."""

    name: str
    context: str
    can_fail: bool

    def fail_if_failed(self, g: Gen) -> None:
        if self.can_fail:
            code = g.w.inline(f"load i32, ptr {self.context}, align 8")
            g.w.fail_unless(g.w.inline(f"icmp eq i32 {code}, 0"), code)


def _tasks_of(g: Gen, loop: n.For, low: Operand, emit: Emit) -> _Tasks:
    """Write the function of a loop's iterations, and what stores the values that it uses."""
    captured = _captured(g, loop.body)
    inner = _inner(g, loop, low, captured)
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
    context = _stored(g.w, "{ " + ", ".join(ty for ty, _ in fields) + " }", fields)
    return _Tasks(name, context, inner.w.can_fail)


def _stored(w: FunctionWriter, struct: str, fields: Sequence[tuple[str, str]]) -> str:
    """A pointer to a structure on the stack with these values."""
    context = w.fresh("ctx")
    w.allocas.append(f"  {context} = alloca {struct}, align 8")
    w.level_of[context] = 0
    for position, (ty, text) in enumerate(fields):
        where = w.value(f"getelementptr {struct}, ptr {context}, i32 0, i32 {position}", context)
        w.effect(f"store {ty} {text}, ptr {where}, align 8")
    return context


def _launch(g: Gen, name: str, context: str, extent: Operand) -> None:
    g.module.declare("@tunefarm_parallel_for", "i32 @tunefarm_parallel_for(ptr, ptr, i64) nounwind")
    g.w.effect(f'call i32 @tunefarm_parallel_for(ptr @"{name}", ptr {context}, i64 {extent})')
    g.w.loaded.clear()


def _known(value: n.PrimExpr) -> int:
    found = as_int(value)
    assert found is not None, "loops that run side by side have known bounds"
    return found


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
    inner = Gen(
        g.module, w, g.forms, g.symbol, g.noalias, parallel=False, nontemporal=g.nontemporal,
        denormals_are_zero=g.denormals_are_zero,
    )  # fmt: skip
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


def _choosing(name: str, struct: str, tasks: Sequence[str], order: Sequence[tuple[int, int]]) -> str:
    """The function the pool calls for several loops: it looks up which iteration of which loop to run."""
    table = f"[{len(order)} x {{ i32, i32 }}]"
    entries = ", ".join(f"{{ i32, i32 }} {{ i32 {loop}, i32 {own} }}" for loop, own in order)
    lines = [
        f'@"{name}.order" = private unnamed_addr constant {table} [{entries}], align 8',
        "",
        f'define internal void @"{name}"(i64 %task, ptr %contexts) #0 {{',
        "entry:",
        f'  %loop.at = getelementptr {table}, ptr @"{name}.order", i64 0, i64 %task, i32 0',
        "  %loop = load i32, ptr %loop.at, align 4",
        f'  %own.at = getelementptr {table}, ptr @"{name}.order", i64 0, i64 %task, i32 1',
        "  %own32 = load i32, ptr %own.at, align 4",
        "  %own = zext i32 %own32 to i64",
        f"  %context.at = getelementptr {struct}, ptr %contexts, i32 0, i32 0",
        "  %context.of = getelementptr ptr, ptr %context.at, i32 %loop",
        "  %context = load ptr, ptr %context.of, align 8",
        "  switch i32 %loop, label %run0 [",
        *[f"    i32 {i}, label %run{i}" for i in range(1, len(tasks))],
        "  ]",
    ]
    for i, own in enumerate(tasks):
        lines += [f"run{i}:", f'  call void @"{own}"(i64 %own, ptr %context)', "  ret void"]
    return "\n".join([*lines, "}", ""])
