"""Parts of a kernel that do not depend on each other, and may run at the same time.

    with T.attr(None, "side_by_side", 2):        # meant for 2 threads
      for i in T.parallel(4): …                  # long tasks first
      for j in T.parallel(32): …
      with T.attr(None, "side_by_side.part", 1): # runs on one thread
        for k in range(64): …

Machine code for CPUs runs the iterations of all parts in one launch of the thread pool, which leaves no thread idle
between them. Each thread begins with its share of every part, in the order of the parts. Elsewhere the parts run one
after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, Stmt
from compiler.tir.visit import seq, walk_stmts

SIDE_BY_SIDE = "side_by_side"
_PART = "side_by_side.part"


def side_by_side(parts: Sequence[Stmt], threads: int) -> Stmt:
    """Let parts run at the same time, on so many threads. Each is a parallel loop, or else runs on one thread."""
    noted = [part if _is_parallel(part) else n.AttrStmt(None, _PART, ops.const(1), part) for part in parts]
    return n.AttrStmt(None, SIDE_BY_SIDE, ops.const(threads), seq(*noted))


def order_of_tasks(counts: Sequence[int], threads: int) -> list[tuple[int, int]]:
    """The order of all iterations, each with the number of its part. `counts` are the iterations of each part.

    A launch of n tasks on t threads begins with the tasks [k n / t, (k + 1) n / t) on thread k. These are its share of
    each part, the first parts first.
    """
    total = sum(counts)
    begun = [0] * len(counts)
    order: list[tuple[int, int]] = []
    for thread in range(threads):
        size = (thread + 1) * total // threads - len(order)
        shares = [(count - at) // (threads - thread) for count, at in zip(counts, begun)]
        for part in reversed(range(len(counts))):  # what is over, of the last parts first
            shares[part] += min(size - sum(shares), counts[part] - begun[part] - shares[part])
        for part, share in enumerate(shares):
            order += [(part, begun[part] + task) for task in range(share)]
            begun[part] += share
    return order


def independent_loops(stmt: n.AttrStmt) -> list[n.For]:
    """The parts as parallel loops with known bounds, those for one thread with one iteration.
    Empty where passes have made something else of them, which must run in order."""
    parts = stmt.body.seq if isinstance(stmt.body, n.SeqStmt) else (stmt.body,)
    loops: list[n.For] = []
    for part in parts:
        match part:
            case n.AttrStmt(attr_key=key, body=body) if key == _PART and not any(map(_is_parallel, walk_stmts(body))):
                var = n.Var("part", "int32")
                loops.append(n.For(var, ops.const(0), ops.const(1), ForKind.PARALLEL, body))
            case n.For() if _is_parallel(part) and ops.as_int(part.min) is not None and ops.as_int(part.extent):
                loops.append(part)
            case _:
                return []
    return loops


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, n.For) and stmt.kind is ForKind.PARALLEL
