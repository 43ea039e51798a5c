"""Put barriers between conflicting accesses of a block's threads.

One stands where a thread needs what another one wrote, or overwrites what another one still reads.

    for k in 16:                                   for k in 16:
      S[tx] = A[k*32 + tx]                           barrier
      for j in 32: acc += S[j]           →           S[tx] = A[k*32 + tx]
                                                     barrier
                                                     for j in 32: acc += S[j]

Statements are taken in order with the accesses since the last barrier. A barrier goes before the first statement that
may conflict with one of them in another thread. In a loop, accesses of the iteration before count too. No barrier may
stand under a condition that differs between threads, so such a statement is treated as one access. An asynchronous copy
overwrites from where it begins. It can be read behind a barrier after the wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.errors import LoweringError
from compiler.ir.base import Node
from compiler.ir.visit import children, map_children, replace, walk
from compiler.lower.analysis.conditions import conjuncts
from compiler.lower.gpu.thread_axes import bound_extents
from compiler.lower.gpu.thread_ranges import ThreadAccess, ThreadRanges
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.gpu import ATOMICS, tvm_storage_sync
from compiler.tir.intrin.ptx import MEMORY
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, seq

BARRIER = n.Evaluate(tvm_storage_sync("shared"))
_SYNC = "tir.tvm_storage_sync"
_COPY, _WAIT = "ptx_cp_async", "tir.ptx_wait_group"
OWN_BARRIERS = "tir.own_barriers"  # of a function: it has all it needs, where copies that go on by themselves arrive


@tir_pass("ThreadSync", gives=LoweringStage.LOWERED, options={"storage_scope": lambda _context: "shared"})
def inject_barriers(func: n.PrimFunc, *, storage_scope: str = "shared") -> n.PrimFunc:
    """Put barriers where a thread reads what another one wrote, or overwrites what it still reads.

    Both are threads of one block. `func` has flat buffers. One that has its own barriers (its attribute
    `tir.own_barriers` says so) is left as it is. The barriers are right for memory of any scope: `storage_scope` is
    "shared" or "shared.dyn". Raises LoweringError where threads must wait for each other at a place that not all of
    them reach.
    """
    if storage_scope not in ("shared", "shared.dyn"):
        raise LoweringError(
            f"there are no barriers for memory of scope {storage_scope!r}", hint='use ThreadSync("shared"): it puts all'
        )
    if func.attrs.get(OWN_BARRIERS):
        return func
    private: set[n.Var] = set()

    def go(node: Node) -> Node:
        match node:
            case PrimExpr():
                return node
            case n.Allocate() if node.scope.startswith(("local", "warp")):
                private.add(node.buffer_var)
            case n.For(kind=ForKind.THREAD_BINDING) | n.AttrStmt(attr_key="thread_extent"):
                return _Injector(node, private).run()
        return map_children(node, go)

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


@dataclass(slots=True)
class _Open:
    """Accesses: `head` before the first barrier, `tail` since the last one.
    `closed`: every way through them has a barrier; `holds_barrier`: some way has."""

    head: list[ThreadAccess] = field(default_factory=list)
    tail: list[ThreadAccess] = field(default_factory=list)
    closed: bool = False
    holds_barrier: bool = False

    def barrier(self) -> None:
        self.tail.clear()
        self.closed = self.holds_barrier = True


class _Injector:
    """Works on one kernel."""

    def __init__(self, kernel: Stmt, private: set[n.Var]) -> None:
        self._kernel = kernel
        self._private = set(private)
        axes: dict[n.Var, str] = {}
        lets: set[n.Var] = set()
        copied: dict[n.Var, None] = {}
        for node in walk(kernel):
            match node:
                case n.Call(args=(n.Var() as data, *_)) if _name(node) == _COPY:
                    copied[data] = None
                case n.For(kind=ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)):
                    axes[node.loop_var] = tag
                case n.AttrStmt(attr_key="thread_extent", node=n.IterVar(thread_tag=tag, var=var)):
                    axes[var] = tag
                case n.Allocate() if node.scope.startswith(("local", "warp")):
                    self._private.add(node.buffer_var)
                case n.LetStmt() | n.Let():
                    lets.add(node.var)
                case _:
                    pass
        self._extents = {
            tag: max((ops.as_int(e) or 0 for e in extents), default=0) for tag, extents in bound_extents(kernel).items()
        }
        extents = {tag: extent for tag, extent in self._extents.items() if tag.startswith("threadIdx")}
        self._threads = ThreadRanges(extents, axes, frozenset(lets))
        self._arrivals = [ThreadAccess(data, True, None, ()) for data in copied]
        self._moving = {var for var, tag in axes.items() if tag.startswith("threadIdx")}  # differ between threads
        self._loops: list[n.For] = []
        self._conditions: list[PrimExpr] = []
        self._repeated: list[ThreadAccess] = []  # accesses of the iteration before
        self._repeated_of: n.For | None = None

    def run(self) -> Stmt:
        return self._visit(self._kernel, _Open())

    # ------------------------------------------------------------------------------ statements

    def _visit(self, stmt: Stmt, open_: _Open) -> Stmt:
        """`stmt` with barriers; `open_` is brought up to its end."""
        match stmt:
            case n.SeqStmt():
                return seq(*(self._visit(part, open_) for part in stmt.seq))
            case n.Evaluate(value=n.Call(op=op, args=(n.StringImm(value=scope),))) if getattr(op, "name", "") == _SYNC:
                if scope != "warp":  # which says nothing of the other warps
                    open_.barrier()
                return stmt
            case n.Evaluate(value=n.Call(op=op)) if getattr(op, "name", "") == _WAIT:
                open_.tail += self._arrivals
                return stmt
            case n.For() | n.While() | n.IfThenElse() | n.AttrStmt(attr_key="thread_extent") if self._diverges(stmt):
                return self._as_one(stmt, open_)
            case n.For(kind=ForKind.THREAD_BINDING) | n.AttrStmt() | n.Allocate() | n.DeclBuffer() | n.AssertStmt():
                return self._rebuilt(stmt, open_)
            case n.LetStmt():
                if free_vars(stmt.value) & self._moving or any(isinstance(x, n.BufferLoad) for x in walk(stmt.value)):
                    self._moving.add(stmt.var)
                barrier = self._take(self._accesses(stmt.value), open_)
                return seq(*barrier, self._rebuilt(stmt, open_))
            case n.For():
                return self._loop(stmt, open_)
            case n.IfThenElse():
                return self._branches(stmt, open_)
        return seq(*self._take(self._accesses(stmt), open_), stmt)

    def _rebuilt(self, stmt: Stmt, open_: _Open) -> Stmt:
        def go(node: Node) -> Node:
            return self._visit(node, open_) if isinstance(node, Stmt) else node

        return map_children(stmt, go)

    def _take(self, accesses: list[ThreadAccess], open_: _Open) -> list[Stmt]:
        """Note accesses; the barrier they need before them, if any."""
        needed = any(self._threads.may_meet(a, b) for a in open_.tail for b in accesses) or (
            not open_.closed
            and any(self._threads.may_meet(a, b, self._repeated_of) for a in self._repeated for b in accesses)
        )
        if needed:
            open_.barrier()
        if not open_.closed:
            open_.head += accesses
        open_.tail += [access for access in accesses if not access.begun]
        return [BARRIER] if needed else []

    def _loop(self, loop: n.For, open_: _Open) -> Stmt:
        once = _Open()
        self._loops.append(loop)
        body = self._again(loop.body, once, [], None)
        carried = any(self._threads.may_meet(a, b, loop) for a in once.tail for b in once.head)
        if carried:
            once, tail = _Open(), once.tail
            body = self._again(loop.body, once, tail, loop)
        self._loops.pop()
        barrier = self._take(once.head, open_)
        if once.holds_barrier:
            always = once.closed and (ops.as_int(loop.extent) or 0) > 0  # of unknown extent, it may not run
            open_.holds_barrier = True
            open_.closed |= always
            open_.tail = [*([] if always else open_.tail), *once.tail]
        return seq(*barrier, loop if body is loop.body else replace(loop, body=body))

    def _again(self, body: Stmt, open_: _Open, before: list[ThreadAccess], loop: n.For | None) -> Stmt:
        outer = self._repeated, self._repeated_of
        self._repeated, self._repeated_of = before, loop
        result = self._visit(body, open_)
        self._repeated, self._repeated_of = outer
        return result

    def _branches(self, stmt: n.IfThenElse, open_: _Open) -> Stmt:
        """A condition all threads agree on: barriers may stand in its branches."""
        barrier = self._take(self._accesses(stmt.condition), open_)
        ends: list[_Open] = []
        parts: list[Stmt] = []
        for part in (stmt.then_case, stmt.else_case):
            end = _Open(list(open_.head), list(open_.tail), open_.closed, open_.holds_barrier)
            ends.append(end)
            if part is not None:
                known = conjuncts(stmt.condition) if part is stmt.then_case else []
                self._conditions += known
                parts.append(self._visit(part, end))
                del self._conditions[len(self._conditions) - len(known) :]
        open_.head = [access for end in ends for access in end.head]
        open_.tail = [access for end in ends for access in end.tail]
        open_.closed = all(end.closed for end in ends)
        open_.holds_barrier = any(end.holds_barrier for end in ends)
        return seq(*barrier, n.IfThenElse(stmt.condition, parts[0], parts[1] if len(parts) > 1 else None, stmt.span))

    def _as_one(self, stmt: Stmt, open_: _Open) -> Stmt:
        inside = _Open()
        outer_moving, self._moving = self._moving, set(self._moving)
        guarded = [node for node in walk(stmt) if isinstance(node, n.For) and node.kind is not ForKind.THREAD_BINDING]
        depth = len(self._loops)
        before, self._repeated = self._repeated, []  # a barrier for these stands in front of the whole
        self._inside(stmt, inside)
        self._repeated = before
        del self._loops[depth:]
        self._moving = outer_moving
        if inside.holds_barrier:
            names = _names(inside.head + inside.tail) or "shared memory"
            raise LoweringError(
                f"threads must wait for each other to use {names}, under a condition that not all of them meet",
                hint="let sizes be multiples of the threads' extents, or compute what is shared outside the condition",
                detail={"loops": [loop.loop_var.name for loop in guarded]},
            )
        return seq(*self._take(inside.head, open_), stmt)

    def _inside(self, stmt: Stmt, open_: _Open) -> Stmt:
        """Visit a statement that not all threads run."""
        match stmt:
            case n.For(kind=ForKind.THREAD_BINDING) | n.AttrStmt():
                return self._rebuilt(stmt, open_)
            case n.For():
                return self._loop(stmt, open_)
            case n.IfThenElse():
                return self._branches(stmt, open_)
        assert isinstance(stmt, n.While)
        accesses = self._accesses(stmt)
        met = [a for a in accesses for b in accesses if self._threads.may_meet(a, b)]
        if met and not any(isinstance(node, n.Call) and f"tir.{_name(node)}" == _SYNC for node in walk(stmt)):
            raise LoweringError(
                f"threads must wait for each other to use {_names(met)}, in a while loop that not all of them may run "
                "as often",
                hint="write a for loop with a condition inside, or T.tvm_storage_sync where all threads come to it",
            )
        self._take(accesses, open_)
        return stmt

    # -------------------------------------------------------------------------------- questions

    def _diverges(self, stmt: Stmt) -> bool:
        """Whether only some threads of a block may run the inside of `stmt`, or some may run it more often."""
        match stmt:
            case n.For(kind=ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)):
                return self._is_partial(tag, stmt.extent)
            case n.AttrStmt(node=n.IterVar(thread_tag=tag)):
                return self._is_partial(tag, stmt.value)
            case n.For():
                return self._differs(stmt.min) or self._differs(stmt.extent)
            case n.IfThenElse():
                return self._differs(stmt.condition)
        return True

    def _is_partial(self, tag: str, extent: PrimExpr) -> bool:
        return tag.startswith("threadIdx") and ops.as_int(extent) != self._extents[tag]

    def _differs(self, expr: PrimExpr) -> bool:
        return bool(free_vars(expr) & self._moving) or any(isinstance(node, n.BufferLoad) for node in walk(expr))

    def _accesses(self, node: Node) -> list[ThreadAccess]:
        """Return what a statement or expression touches of memory that threads share."""
        loops, conditions = tuple(self._loops), tuple(self._conditions)
        found: list[ThreadAccess] = []

        def note(data: n.Var, write: bool, index: PrimExpr | None, atomic: bool = False, begun: bool = False) -> None:
            if data not in self._private:
                found.append(ThreadAccess(data, write, index, loops, atomic, conditions, begun))

        def look(part: Node) -> None:
            match part:
                case n.Call(args=(n.BufferLoad() as element, *rest)) if _name(part) in ATOMICS:
                    note(element.buffer.data, True, element.indices[0], atomic=True)
                    for other in (*element.indices, *rest):
                        look(other)
                    return
                case n.Call() if f"tir.{_name(part)}" in MEMORY:
                    reads, writes = MEMORY[f"tir.{_name(part)}"]
                    for positions, write in ((reads, False), (writes, True)):
                        for data in (part.args[i] for i in positions):
                            if isinstance(data, n.Var):
                                note(data, write, None, begun=_name(part) == _COPY and write)
                case n.Call(args=(_, n.Var() as data, _, _, mask)) if _name(part) == "tvm_access_ptr":
                    note(data, ops.as_int(mask) != 1, None)
                case n.BufferLoad():
                    note(part.buffer.data, False, part.indices[0])
                case n.BufferStore():
                    for child in children(part):
                        look(child)
                    note(part.buffer.data, True, part.indices[0])
                    return
                case _:
                    pass
            for child in children(part):
                look(child)

        look(node)
        return found


def _names(accesses: list[ThreadAccess]) -> str:
    return ", ".join(sorted({access.data.name for access in accesses}))


def _name(call: n.Call) -> str:
    return getattr(call.op, "name", "").removeprefix("tir.")
