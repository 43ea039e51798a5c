"""Reductions along a loop bound to threadIdx.

Each thread reduces its part, then the threads of a block combine theirs.

    for ko in 4:                                        for tx: part = 0
      for tx in thread_binding(64, "threadIdx.x"):      for ko in 4:
        block S: init S[i] = 0                    →       for tx: part += A[i, ko*64 + tx]
                 S[i] += A[i, ko*64 + tx]               for tx: part = sum of all threads' part
                                                        for tx: if tx == 0: S[i] = part

Threads of one warp exchange their parts by shuffles, warps through shared memory. All goes through shared memory where
the threads that reduce together are not whole warps or halves of them. The same holds where not all threads of a warp
come to the exchange. A result in "local" memory is stored by each thread, any other by the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler.errors import LoweringError
from compiler.ir.base import Node
from compiler.ir.structural import structural_equal
from compiler.ir.visit import children, map_children, replace, walk
from compiler.lower.analysis.conditions import conjunction, conjuncts, guarded
from compiler.lower.blocks.plan_allocation import allocating
from compiler.lower.gpu.thread_axes import AXES, bound_extents
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.gpu import FULL_MASK, WARP, tvm_warp_shuffle_xor
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.visit import free_vars, seq, substitute

Path = tuple[Node, ...]
Fresh = Mapping[n.Var, PrimExpr]  # the variables of the loops over threads around a statement, by those of the block
Make = Callable[[Fresh], Stmt]
Number = Callable[[Fresh], PrimExpr]
_UNITS: dict[type, Callable[[str], PrimExpr]] = {
    n.Add: lambda dtype: ops.const(0, dtype), n.Mul: lambda dtype: ops.const(1, dtype),
    n.Min: ops.max_value, n.Max: ops.min_value,
}  # fmt: skip


@tir_pass("LowerCrossThreadReduction")
def lower_thread_reductions(func: n.PrimFunc) -> n.PrimFunc:
    """Reduce along threadIdx: each thread reduces its part, then the threads of a block combine theirs.

    Raises LoweringError for a block where that is not possible.
    """
    while (found := next(_reductions(func.body, ()), None)) is not None:
        func = func.with_body(_Rewriter(func, *found).body())
    return func


def _reductions(node: Node, path: Path) -> Iterator[tuple[Path, n.BlockRealize]]:
    """Each such block, with the nodes around it."""
    if isinstance(node, n.BlockRealize) and node.block.init is not None and _reducing_threads(path, node):
        yield path, node
    for child in children(node):
        if isinstance(child, Stmt):
            yield from _reductions(child, (*path, node))


def _reduced_vars(realize: n.BlockRealize) -> set[n.Var]:
    pairs = zip(realize.block.iter_vars, realize.iter_values)
    return {v for iv, value in pairs if iv.iter_type is IterType.COMM_REDUCE for v in free_vars(value)}


def _thread_extents(path: Path) -> dict[str, int]:
    """How many threads the block of the kernel on `path` has along each axis."""
    kernel = next(x for x in path if isinstance(x, n.For) and _tag(x) in AXES)
    extents = bound_extents(kernel)
    sizes = {tag: [ops.as_int(extent) or 0 for extent in extents.get(tag, [ops.const(1)])] for tag in AXES}
    return {tag: max(size) for tag, size in sizes.items() if tag.startswith("threadIdx")}


def _is_thread(node: Node) -> bool:
    return isinstance(node, n.For) and _tag(node).startswith("threadIdx.")


def _tag(loop: n.For) -> str:
    return loop.thread_binding.thread_tag if loop.thread_binding is not None else ""


def _reducing_threads(path: Path, realize: n.BlockRealize) -> list[n.For]:
    reduced = _reduced_vars(realize)
    return [node for node in path if isinstance(node, n.For) and _is_thread(node) and node.loop_var in reduced]


@dataclass(frozen=True, slots=True)
class _Update:
    """target[point] = combine(target[point], source), starting from `start`.
    `unit` does not change a result."""

    target: n.Buffer
    point: tuple[PrimExpr, ...]
    combine: Callable[[PrimExpr, PrimExpr], PrimExpr]
    source: PrimExpr
    start: PrimExpr
    unit: PrimExpr


class _Rewriter:
    """Rewrites one block and the loops it reduces over."""

    def __init__(self, func: n.PrimFunc, path: Path, realize: n.BlockRealize) -> None:
        self._func, self._path, self._realize = func, path, realize
        self._name = realize.block.name_hint
        reduced = self._reduced = _reduced_vars(realize)
        first = next(i for i, x in enumerate(path) if isinstance(x, n.For) and x.loop_var in reduced)
        self._top = path[first]
        chain = [node for node in path[first:] if isinstance(node, n.For)]
        self._threads = [loop for loop in chain if _is_thread(loop)]
        self._reducing = _reducing_threads(path, realize)
        self._around = [node for node in path[:first] if isinstance(node, n.For) and _is_thread(node)]
        self._check_chain(chain, reduced)
        self._update = self._taken_apart()
        self._part, self._other = (
            n.decl_buffer((1,), self._update.target.dtype, f"{self._update.target.name}_{name}", scope="local")
            for name in ("part", "other")
        )
        self._extents = _thread_extents(path)
        self._memory = [self._part]  # what the rewriting takes

    def _fail(self, what: str, hint: str) -> LoweringError:
        return LoweringError(f"block {self._name!r} reduces along threads, {what}", hint=hint)

    def _check_chain(self, chain: Sequence[n.For], reduced: set[n.Var]) -> None:
        for loop in chain:
            if loop.loop_var not in reduced and not _is_thread(loop):
                raise self._fail(
                    f"with loop {loop.loop_var.name!r}, over no reduction, inside the loops it reduces over",
                    "reorder: the loops over data outside, those of the reduction inside",
                )
        for loop in self._reducing:
            if ops.as_int(loop.extent) is None or not ops.is_const(loop.min, 0):
                raise self._fail(f"but loop {loop.loop_var.name!r} has no constant extent", "split it by a constant")

    def _taken_apart(self) -> _Update:
        block = self._realize.block
        body, init = block.body, block.init
        values: dict[n.Var, PrimExpr] = {iv.var: value for iv, value in zip(block.iter_vars, self._realize.iter_values)}
        if isinstance(body, n.BufferStore) and isinstance(init, n.BufferStore):
            sources = _sources(body.value, body)
            first = sources[0] if sources else None
            if first is not None and all(structural_equal(first, other) for other in sources):
                point = tuple(substitute(index, values) for index in body.indices)
                start = substitute(init.value, values)
                is_known, is_constant = type(body.value) in _UNITS, isinstance(start, n.IntImm | n.FloatImm)
                again = isinstance(body.value, n.Min | n.Max) and is_constant  # as often as wanted
                unit = _UNITS[type(body.value)](body.buffer.dtype) if is_known and not again else start
                if is_known or is_constant:
                    combine = _combiner(body, sources)
                    return _Update(body.buffer, point, combine, substitute(first, values), start, unit)
        raise self._fail(
            "and it is not seen what it combines with what", "store f(result, x) with one x, a sum or a maximum"
        )

    # ----------------------------------------------------------------------------------- pieces

    def body(self) -> Stmt:
        whole = seq(self._start(), self._replaced(), self._finish())
        inside = allocating(self._memory, whole)

        def go(node: Node) -> Node:
            if node is self._top:
                return inside
            return map_children(node, go) if isinstance(node, Stmt) else node

        result = go(self._func.body)
        assert isinstance(result, Stmt)
        return result

    def _start(self) -> Stmt:
        return self._in_threads(lambda _: self._store(self._update.unit))

    def _replaced(self) -> Stmt:
        """The loops, with the block as an update of the thread's part."""
        step = self._store(self._combined(self._load(), self._update.source))
        step = guarded(conjunction(c for c in conjuncts(self._realize.predicate) if not self._is_for_store(c)), step)

        def go(node: Node) -> Node:
            if node is self._realize:
                return step
            return map_children(node, go) if isinstance(node, Stmt) else node

        result = go(self._top)
        assert isinstance(result, Stmt)
        return result

    def _is_for_store(self, condition: PrimExpr) -> bool:
        """Whether a condition says which thread stores the result, as `set_store_predicate(tx == 0)` does."""
        return isinstance(condition, n.EQ) and free_vars(condition) <= {loop.loop_var for loop in self._reducing}

    def _finish(self) -> Stmt:
        update = self._update

        def last(fresh: Fresh) -> Stmt:
            known = dict(fresh)
            value: PrimExpr = self._load()
            if not structural_equal(update.start, update.unit):
                value = self._combined(substitute(update.start, known), value)
            store = n.BufferStore(update.target, value, tuple(substitute(i, known) for i in update.point))
            tests = [
                substitute(c, known)
                for c in conjuncts(self._realize.predicate)
                if not self._is_for_store(c) and not free_vars(c) & self._reduced
            ]
            if not update.target.scope.startswith("local"):
                tests += [ops.equal(fresh[loop.loop_var], 0) for loop in self._reducing]
            return guarded(conjunction(tests), store)

        return seq(*(self._in_threads(step) for step in self._exchange()), self._in_threads(last))

    def _in_threads(self, make: Make) -> Stmt:
        """Put statements in loops of their own over the threads. `make` gets the new variables."""
        fresh: dict[n.Var, PrimExpr] = {
            loop.loop_var: n.Var(loop.loop_var.name, loop.loop_var.dtype) for loop in self._threads
        }
        body = make({**{x.loop_var: x.loop_var for x in self._around}, **fresh})
        for loop in reversed(self._threads):
            tag = _tag(loop)
            axis = n.IterVar(None, n.Var(tag, loop.loop_var.dtype), IterType.THREAD_INDEX, tag)
            body = replace(loop, loop_var=fresh[loop.loop_var], thread_binding=axis, body=body)
        assert isinstance(body, Stmt)
        return body

    def _load(self) -> PrimExpr:
        return n.BufferLoad(self._part, (ops.const(0),))

    def _store(self, value: PrimExpr) -> Stmt:
        return n.BufferStore(self._part, value, (ops.const(0),))

    def _combined(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        return self._update.combine(a, b)

    # --------------------------------------------------------------------------------- exchange

    def _exchange(self) -> list[Make]:
        """Return how to combine the parts: functions from thread variables to statements.
        Barriers come between."""
        count = 1
        for loop in self._reducing:
            count *= ops.as_int(loop.extent) or 1
        if count == 1:
            return []
        if not self._by_shuffles(count):
            return self._through_memory(count)
        width = min(count, WARP)
        steps: list[Make] = [lambda _fresh: seq(*self._shuffles(width))]
        return steps if count == width else [*steps, *self._between_warps(count // WARP)]

    def _by_shuffles(self, count: int) -> bool:
        """Whether the threads that reduce together are neighbours and fill warps.
        They may also fill even parts of a warp whose other threads come along."""
        if [_tag(loop) for loop in self._reducing] != ["threadIdx.x"] or self._extents["threadIdx.x"] != count:
            return False
        if count >= WARP:
            return count % WARP == 0 and not self._diverges(self._reducing)
        others = [loop for loop in [*self._around, *self._threads] if loop not in self._reducing]
        if any(ops.as_int(loop.extent) != self._extents[_tag(loop)] for loop in others) or self._diverges(others):
            return False
        return count & (count - 1) == 0 and prod(self._extents.values()) % WARP == 0

    def _diverges(self, threads: Sequence[n.For]) -> bool:
        """Whether what is around the block may be run by some of `threads` and not by others."""
        own = {loop.loop_var for loop in threads}
        for node in self._path:
            match node:
                case n.For():
                    heads = [node.min, node.extent]
                case n.IfThenElse() | n.While():
                    heads = [node.condition]
                case _:
                    continue
            if any(free_vars(head) & own or any(isinstance(x, n.BufferLoad) for x in walk(head)) for head in heads):
                return True
        return False

    def _shuffles(self, width: int) -> Iterator[Stmt]:
        """Exchange parts by shuffles.
        Each is a statement of its own, because a combination may use its result twice or not at all."""
        self._memory.append(self._other)
        other = n.BufferLoad(self._other, (ops.const(0),))
        distance = width // 2
        while distance:
            brought = tvm_warp_shuffle_xor(FULL_MASK, self._load(), distance, width, WARP)
            yield n.BufferStore(self._other, brought, (ops.const(0),))
            yield self._store(self._combined(self._load(), other))
            distance //= 2

    def _between_warps(self, warps: int) -> list[Make]:
        place, group = self._scratch(warps)
        [loop] = self._reducing

        def write(fresh: Fresh) -> Stmt:
            lane, warp = (op(fresh[loop.loop_var], WARP) for op in (ops.floormod, ops.floordiv))
            at = ops.add(ops.mul(group(fresh), warps), warp)
            return guarded(ops.equal(lane, 0), n.BufferStore(place, self._load(), (at,)))

        def read(fresh: Fresh) -> Stmt:
            base = ops.mul(group(fresh), warps)
            value: PrimExpr = n.BufferLoad(place, (base,))
            for warp in range(1, warps):
                value = self._combined(value, n.BufferLoad(place, (ops.add(base, warp),)))
            return self._store(value)

        return [write, read]

    def _through_memory(self, count: int) -> list[Make]:
        """All parts in shared memory, folded in halves."""
        place, group = self._scratch(count)

        def at(fresh: Fresh, offset: int = 0) -> PrimExpr:
            return ops.add(ops.mul(group(fresh), count), ops.add(_number(self._reducing, fresh), offset))

        def write(fresh: Fresh) -> Stmt:
            return n.BufferStore(place, self._load(), (at(fresh),))

        def fold(live: int, half: int) -> Make:
            def step(fresh: Fresh) -> Stmt:
                number = _number(self._reducing, fresh)
                mine, other = (n.BufferLoad(place, (at(fresh, offset),)) for offset in (0, half))
                test = ops.binary(n.LT, number, ops.const(live - half))
                return guarded(test, n.BufferStore(place, self._combined(mine, other), (at(fresh),)))

            return step

        def read(fresh: Fresh) -> Stmt:
            return self._store(n.BufferLoad(place, (ops.mul(group(fresh), count),)))

        folds: list[Make] = []
        live = count
        while live > 1:
            half = (live + 1) // 2
            folds.append(fold(live, half))
            live = half
        return [write, *folds, read]

    def _scratch(self, size: int) -> tuple[n.Buffer, Number]:
        """Shared memory for `size` values of each group of threads, and the group's number."""
        others: dict[str, n.For] = {}
        for loop in [*self._around, *self._threads]:
            if loop not in self._reducing:
                others.setdefault(_tag(loop), loop)
        groups = 1
        for loop in others.values():
            groups *= ops.as_int(loop.extent) or 1
        dtype = self._update.target.dtype
        place = n.decl_buffer((size * groups,), dtype, f"{self._update.target.name}_shared", scope="shared")
        self._memory.append(place)
        return place, lambda fresh: _number(list(others.values()), fresh)


def _number(loops: Sequence[n.For], fresh: Fresh) -> PrimExpr:
    """The number of a thread among those of `loops`, the first running fastest."""
    total: PrimExpr = ops.const(0)
    scale = 1
    for loop in loops:
        total = ops.add(total, ops.mul(fresh[loop.loop_var], scale))
        scale *= ops.as_int(loop.extent) or 1
    return total


def _is_own(expr: Node, store: n.BufferStore) -> bool:
    return isinstance(expr, n.BufferLoad) and expr.buffer is store.buffer and _same(expr.indices, store.indices)


def _sources(value: PrimExpr, store: n.BufferStore) -> list[PrimExpr]:
    """The largest parts of a stored value that do not read the stored element.
    They are the values it is combined with."""
    if _is_own(value, store):
        return []
    if not any(_is_own(node, store) for node in walk(value)):
        return [value]
    return [x for part in children(value) if isinstance(part, PrimExpr) for x in _sources(part, store)]


def _combiner(store: n.BufferStore, sources: Sequence[PrimExpr]) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    """The stored value as a function of the earlier value and the one it is combined with."""

    def combine(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        def go(node: Node) -> Node:
            if _is_own(node, store):
                return a
            return b if any(node is source for source in sources) else map_children(node, go)

        result = go(store.value)
        assert isinstance(result, PrimExpr)
        return result

    return combine


def _same(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return len(a) == len(b) and all(structural_equal(x, y) for x, y in zip(a, b))
