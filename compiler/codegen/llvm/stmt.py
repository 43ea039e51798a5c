"""Statements: loops (serial, unrolled), conditions, storage, and the walk over them."""

from __future__ import annotations

from compiler.codegen.llvm.expr import bind
from compiler.codegen.llvm.gen import STMT, Gen, KernelStorage, runs
from compiler.codegen.llvm.graph_calls import declare_allocator
from compiler.codegen.llvm.index import index
from compiler.codegen.llvm.parallel import emit_parallel, emit_side_by_side
from compiler.codegen.llvm.types import element_bytes, lanes_of, memory_type
from compiler.codegen.llvm.writer import ASSERTION_FAILED, Operand
from compiler.codegen.nvptx.threads import emit_bound, emit_shared
from compiler.errors import CodegenError
from compiler.lower.loops.vectorize import TRANSPOSE
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.graph import CELL_SCOPE
from compiler.tir.nodes import ForKind, Stmt
from compiler.tir.side_by_side import SIDE_BY_SIDE, independent_loops

# Temporaries up to this size live on the stack of the function (or parallel task) that uses them.
STACK_BYTES = 16 << 10
LOCAL_STACK_BYTES = 64 << 10
# A loop with this annotation stores vectors past the caches, for results too large to be found there again.
NONTEMPORAL_LOOP = "pragma_nontemporal"


def emit(g: Gen, stmt: Stmt) -> None:
    """Write what runs `stmt`."""
    run = STMT.get(type(stmt))
    if run is None:
        raise CodegenError(
            f"no machine code for a {type(stmt).__name__} statement in {g.symbol}",
            hint="lower the function before generating code",
        )
    run(g, stmt)


@runs(n.SeqStmt)
def _seq(g: Gen, stmt: n.SeqStmt) -> None:
    for part in stmt.seq:
        emit(g, part)


@runs(n.Evaluate)
def _evaluate(g: Gen, stmt: n.Evaluate) -> None:
    if isinstance(stmt.value, n.Call):
        g.value(stmt.value)


@runs(n.LetStmt)
def _let(g: Gen, stmt: n.LetStmt) -> None:
    bind(g, stmt.var, stmt.value)
    emit(g, stmt.body)


@runs(n.AttrStmt)
def _attr(g: Gen, stmt: n.AttrStmt) -> None:
    if stmt.attr_key == "thread_extent" and isinstance(stmt.node, n.IterVar) and g.module.options.device is not None:
        _bound(g, stmt.node.var, ops.const(0), stmt.value, stmt.node.thread_tag, stmt.body)
    elif stmt.attr_key == SIDE_BY_SIDE and g.parallel and (loops := independent_loops(stmt)):
        for loop in loops:
            _remember_range(g, loop)
        emit_side_by_side(g, loops, ops.as_int(stmt.value) or 1, emit)
    else:
        emit(g, stmt.body)


# ------------------------------------------------------------------------------------- loops


@runs(n.For)
def _for(g: Gen, loop: n.For) -> None:
    low, extent = index(g, loop.min), index(g, loop.extent)
    if type(extent) is int and extent <= 0:
        return
    _remember_range(g, loop)
    outside = g.nontemporal, g.transposes
    g.nontemporal |= NONTEMPORAL_LOOP in loop.annotations
    g.transposes |= TRANSPOSE in loop.annotations
    _run(g, loop, low, extent)
    g.nontemporal, g.transposes = outside


def _run(g: Gen, loop: n.For, low: Operand, extent: Operand) -> None:
    match loop.kind:
        case ForKind.PARALLEL if g.parallel and extent != 1:
            emit_parallel(g, loop, low, extent, emit)
        case ForKind.UNROLLED if type(extent) is int:
            _unrolled(g, loop, low, extent)
        case ForKind.SERIAL | ForKind.PARALLEL | ForKind.UNROLLED | ForKind.VECTORIZED:
            _serial(g, loop, low, extent)
        case ForKind.THREAD_BINDING if g.module.options.device is not None:
            assert loop.thread_binding is not None
            _bound(g, loop.loop_var, loop.min, loop.extent, loop.thread_binding.thread_tag, loop.body)
        case ForKind.THREAD_BINDING:
            raise CodegenError(
                f"{g.symbol} binds loop {loop.loop_var.name!r} to {_tag(loop)}, which a CPU target does not have",
                hint="build for a GPU target, or schedule without bind",
            )


def _bound(g: Gen, var: n.Var, low: n.PrimExpr, extent: n.PrimExpr, tag: str, body: Stmt) -> None:
    emit_bound(g, var, low, extent, tag, lambda: emit(g, body))


def _tag(loop: n.For) -> str:
    return loop.thread_binding.thread_tag if loop.thread_binding is not None else "a thread axis"


def _remember_range(g: Gen, loop: n.For) -> None:
    low, high = g.forms.bounds(loop.min)
    g.forms.ranges[loop.loop_var] = (low, high + g.forms.bounds(loop.extent)[1] - 1)


def _unrolled(g: Gen, loop: n.For, low: Operand, extent: int) -> None:
    for step in range(extent):
        g.index_vars[loop.loop_var] = g.w.iadd(low, step)
        emit(g, loop.body)


def _serial(g: Gen, loop: n.For, low: Operand, extent: Operand) -> None:
    if extent == 1:
        g.index_vars[loop.loop_var] = low
        emit(g, loop.body)
        return

    def body(counter: str) -> None:
        g.index_vars[loop.loop_var] = counter
        emit(g, loop.body)

    least = g.forms.bounds(loop.extent)[0]
    g.w.loop(low, g.w.iadd(low, extent), least < 1, body)


@runs(n.While)
def _while(g: Gen, stmt: n.While) -> None:
    w = g.w
    head, body, done = w.label("while"), w.label("body"), w.label("done")
    w.branch(head)
    w.start_block(head)
    w.branch_if(g.value(stmt.condition), body, done)
    w.start_block(body)
    emit(g, stmt.body)
    w.branch(head)
    w.start_block(done)


# -------------------------------------------------------------------------------- conditions


@runs(n.IfThenElse)
def _if(g: Gen, stmt: n.IfThenElse) -> None:
    test = g.value(stmt.condition)
    if test in ("true", "false"):
        taken = stmt.then_case if test == "true" else stmt.else_case
        if taken is not None:
            emit(g, taken)
        return
    w = g.w
    then, after = w.label("then"), w.label("after")
    other = w.label("else") if stmt.else_case is not None else after
    w.branch_if(test, then, other)
    w.start_block(then)
    emit(g, stmt.then_case)
    w.branch(after)
    if stmt.else_case is not None:
        w.start_block(other)
        emit(g, stmt.else_case)
        w.branch(after)
    w.start_block(after)


@runs(n.AssertStmt)
def _assert(g: Gen, stmt: n.AssertStmt) -> None:
    """A failed assertion prints its message to stderr and ends the function with a code."""
    test = g.value(stmt.condition)
    if test != "true":
        w = g.w
        failed, passed = w.label("failed"), w.label("passed")
        message = stmt.message.value if isinstance(stmt.message, n.StringImm) else "assertion failed"
        w.branch_if(test, passed, failed)
        w.start_block(failed)
        if g.module.options.device is not None:  # which ends the kernel, and the launch with an error
            w.effect(f"call void {g.module.declare('@llvm.trap', 'void @llvm.trap() cold noreturn nounwind')}()")
        else:
            _complain(g, f"{g.symbol}: {message}\n")
        w.branch(passed)
        w.start_block(passed)
    emit(g, stmt.body)


def _complain(g: Gen, data: str) -> None:
    g.module.declare("@write", "i64 @write(i32, ptr, i64)")
    g.w.effect(f"call i64 @write(i32 2, ptr {g.module.string(data)}, i64 {len(data.encode())})")
    g.w.fail_unless("false", str(ASSERTION_FAILED))


# ----------------------------------------------------------------------------------- storage


@runs(n.DeclBuffer)
def _declare(g: Gen, stmt: n.DeclBuffer) -> None:
    emit(g, stmt.body)


@runs(n.Allocate)
def _allocate(g: Gen, stmt: n.Allocate) -> None:
    element, size = memory_type(stmt.dtype), element_bytes(stmt.dtype) * lanes_of(stmt.dtype)
    count: Operand = 1
    for extent in stmt.extents:
        count = _product(g, count, index(g, extent))
    if stmt.scope == CELL_SCOPE:
        assert type(count) is int
        declare_allocator(g)
        g.storage[stmt.buffer_var] = KernelStorage(g.w.cell(count), count, private=True)
        emit(g, stmt.body)
        return
    if g.module.options.device is not None and stmt.scope.startswith("shared"):
        storage = emit_shared(g, stmt, count, element, size)
        g.storage[stmt.buffer_var] = storage
        g.allocated[stmt.buffer_var] = (count, storage)
        emit(g, stmt.body)
        return
    known = g.allocated.get(stmt.buffer_var)
    if known is not None and known[0] == count:  # an unrolled copy: its storage is free again
        g.storage[stmt.buffer_var] = known[1]
        emit(g, stmt.body)
        return
    limit = LOCAL_STACK_BYTES if stmt.scope == "local" else STACK_BYTES
    if g.module.options.device is not None and not (type(count) is int and count * size <= LOCAL_STACK_BYTES):
        raise CodegenError(
            f"{g.symbol}: {stmt.buffer_var.name!r}, memory of one thread, is too large or of unknown size",
            hint=f"at most {LOCAL_STACK_BYTES} bytes; let the stage be computed in a smaller loop",
        )
    if type(count) is int and count * size <= limit:
        pointer = g.w.alloca(element, max(count, 1), 64)
    else:
        pointer = _heap(g, count, size)
    storage = KernelStorage(pointer, count if type(count) is int else None, private=True)
    g.storage[stmt.buffer_var] = storage
    g.allocated[stmt.buffer_var] = (count, storage)
    emit(g, stmt.body)


def _product(g: Gen, a: Operand, b: Operand) -> Operand:
    if type(a) is int:
        return g.w.imul(b, a)
    return g.w.imul(a, b) if type(b) is int else g.w.value(f"mul nsw i64 {a}, {b}", a, b)


def _heap(g: Gen, count: Operand, size: int) -> str:
    """Memory taken at the function's entry and given back at its exit, if the size is known by then.

    A temporary inside a loop is thus allocated once, not in each iteration.
    """
    declare_allocator(g)
    total = g.w.imul(count, size)
    if type(total) is str and g.w.level_of.get(total) != 0:
        raise CodegenError(
            f"a temporary buffer of {g.symbol} has a size that changes within the function",
            hint="only sizes made of constants and arguments can be allocated",
        )
    return g.w.heap_memory(total)
