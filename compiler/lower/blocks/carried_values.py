"""Find the loops that may have a temporary of their own in each iteration.

A loop that carries a value of the temporary to a later iteration may not.

    for i: t[i] = ...                        carries: an iteration reads what the one before wrote
           f[i] = t[i - 1]

    for i: for j in 4: t[i * 4 + j] = ...    carries nothing: each iteration has elements of its own
           for j in 4: f[...] = t[i * 4 + j]

    for i: for j in 6: t[i + j] = ...        carries nothing: each iteration writes all that it reads, before that
           for j in 4: f[...] = t[i + j + 1]

A loop that is not known to be of the second or the third kind counts as one that carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler.arith.affine import as_affine
from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import same_expr
from compiler.ir.base import GlobalVar, Node
from compiler.ir.visit import children, walk
from compiler.lower.analysis.conditions import conjuncts
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt
from compiler.tir.visit import free_vars, substitute

Values = Mapping[n.Var, PrimExpr]
Interval = tuple[PrimExpr, PrimExpr]
Domains = dict[n.Var, tuple[PrimExpr, PrimExpr]]
Index = PrimExpr | None  # None: any element, as where memory says which

_INTEGERS = ("int32", "int64")
_AT_ONCE = (ForKind.PARALLEL, ForKind.THREAD_BINDING)
_AXES = {IterType.DATA_PAR, IterType.COMM_REDUCE}
_IN_TURN = (ForKind.SERIAL, ForKind.UNROLLED)


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """A statement on the way to an access, and which of its parts the way goes through."""

    node: Node
    part: int = 0
    over: tuple[n.Var, PrimExpr, PrimExpr] | None = None  # a loop's variable, where it starts and how long it is
    conditions: tuple[PrimExpr, ...] = ()
    certain: bool = True  # False where it may be left out under conditions that are not told
    is_block: bool = False  # with axes that are all data-parallel or reduced


Path = tuple[_Step, ...]


@dataclass(frozen=True, slots=True)
class _Access:
    """A read or a write: its indices in terms of loops and the way to it."""

    writes: bool
    indices: tuple[Index, ...]
    path: Path


class CarriedValues:
    """Answers for some temporaries of the function with this `body`."""

    def __init__(self, body: Stmt, temporaries: Iterable[n.Buffer]) -> None:
        self._analyzer = Analyzer()
        collector = _Collector({buffer.data: buffer for buffer in temporaries}, self._analyzer)
        collector.statement(body, (), {})
        self._accesses = collector.accesses

    def depth(self, buffer: n.Buffer, loops: Sequence[n.For], outside: int) -> int:
        """Return how many of `loops`, which are around all uses of `buffer`, it may lie in.

        It is declared within the first `outside` of them. Threads and the parts of a parallel loop run at once: they
        have a buffer each, whatever is read.
        """
        least = max([outside, *(depth for depth, loop in enumerate(loops, 1) if loop.kind in _AT_ONCE)])
        accesses = self._accesses.get(buffer, [])
        if least >= len(loops) or all(access.writes for access in accesses):
            return len(loops)
        apart = [self._is_apart(buffer, loop, accesses) for loop in loops[least:]]
        for depth in range(len(loops), least, -1):
            if all(apart[: depth - least]) or self._writes_first(buffer, loops[depth - 1], accesses):
                return depth
        return least

    # ------------------------------------------------------------------------- elements of its own

    def _is_apart(self, buffer: n.Buffer, loop: n.For, accesses: list[_Access]) -> bool:
        """Whether no two iterations of `loop` touch the same element.
        The loops around it stay in one iteration."""
        return any(self._is_apart_along(dim, buffer, loop, accesses) for dim in range(len(buffer.shape)))

    def _is_apart_along(self, dim: int, buffer: n.Buffer, loop: n.For, accesses: list[_Access]) -> bool:
        start: PrimExpr | None = None
        first = last = step = 0
        for access in accesses:
            domains = _domains(access.path[_position(access.path, loop) + 1 :]) | _shared(access.path, buffer)
            found = self._interval(access.indices[dim], domains)
            if found is None:
                return False
            if start is None:
                start = found[0]
                affine = as_affine(start, [loop.loop_var])
                if affine is None:
                    return False
                step = abs(affine[0][0])
            before = self._analyzer.const_int_bound(ops.sub(found[0], start))[0]
            after = self._analyzer.const_int_bound(ops.sub(found[1], start))[1]
            if before is None or after is None:
                return False
            first, last = min(first, before), max(last, after)
        return last - first < step

    def _interval(self, index: Index, domains: Domains) -> Interval | None:
        """The least and the greatest value of `index`, and of its last lane, while loops run."""
        behind = 0
        if isinstance(index, n.Ramp):
            stride = ops.as_int(index.stride)
            if stride is None or stride < 0:
                return None
            behind = stride * (index.lanes - 1)
            index = index.base
        if index is None or index.dtype not in _INTEGERS:
            return None
        found = self._analyzer.int_set(index, domains)
        return None if found is None else (found[0], ops.add(found[1], behind))

    # -------------------------------------------------------------------------- written beforehand

    def _writes_first(self, buffer: n.Buffer, loop: n.For, accesses: list[_Access]) -> bool:
        """Whether an iteration of `loop` writes each element before it reads it."""
        writes = [access for access in accesses if access.writes and None not in access.indices]
        reads = [access for access in accesses if not access.writes]
        return all(any(self._covers(buffer, loop, write, read) for write in writes) for read in reads)

    def _covers(self, buffer: n.Buffer, loop: n.For, write: _Access, read: _Access) -> bool:
        """Whether `write` has already written all that `read` reads, in the same iteration of `loop`."""
        pairs = enumerate(zip(write.path, read.path))
        same = next((depth for depth, (ours, theirs) in pairs if ours is not theirs), None)
        if same is None:
            return False  # the read is of the same statement
        before, after = write.path[same], read.path[same]
        if before.node is not after.node or not isinstance(before.node, n.SeqStmt) or before.part > after.part:
            return False
        if not all(step.certain for step in write.path[same:]):
            return False
        return self._fills(buffer, loop, write, read, same) or self._is_like(write, read, same)

    def _fills(self, buffer: n.Buffer, loop: n.For, write: _Access, read: _Access, same: int) -> bool:
        """Whether `write` fills a box that holds what `read` reads, as far as that lies in the buffer.

        They have the first `same` steps of their ways in common.
        """
        common, own = write.path[:same], write.path[same:]
        threads = _shared(common, buffer)
        inner = threads | _domains(own)
        conditions = [(part, step.is_block) for step in own for part in step.conditions]
        conditions += [(part, False) for s in common for part in s.conditions if free_vars(part) & threads.keys()]
        within = write.path[_position(write.path, loop) + 1 :]
        if not self._is_box(write.indices, inner, any(step.is_block for step in own)):
            return False
        outer = threads | _domains(read.path[same:])
        needed: list[list[Interval]] = []  # in each dimension, ranges that hold all that is read
        for size, ours, theirs in zip(buffer.shape, write.indices, read.indices):
            filled, wanted = self._interval(ours, inner), self._interval(theirs, outer)
            needed.append([(ops.const(0, size.dtype), ops.sub(size, 1)), *([] if wanted is None else [wanted])])
            if filled is None or not (self._starts_by(filled[0], needed[-1]) and self._goes_to(filled[1], needed[-1])):
                return False
        for part, of_block in conditions:
            if of_block and _negative(part) is not None and free_vars(part) & inner.keys():
                continue  # it ends the last tile where the block's axes end
            if not self._leaves(part, write.indices, inner, needed) and not self._is_start(part, write, within):
                return False
        return True

    def _leaves(self, part: PrimExpr, indices: tuple[Index, ...], inner: Domains, needed: list[list[Interval]]) -> bool:
        """Whether the condition `part` limits an index only, and leaves what is needed of it."""
        negative = _negative(part)
        if negative is None:
            return self._analyzer.can_prove(part)
        for index, ranges in zip(indices, needed):
            if index is None or index.dtype not in _INTEGERS:
                continue
            most = self._analyzer.simplify(ops.sub(ops.sub(index, negative), 1))
            least = self._analyzer.simplify(ops.add(ops.add(index, negative), 1))
            if not free_vars(most) & inner.keys() and self._goes_to(most, ranges):
                return True
            if not free_vars(least) & inner.keys() and self._starts_by(least, ranges):
                return True
        return self._analyzer.can_prove(part)

    def _starts_by(self, low: PrimExpr, ranges: list[Interval]) -> bool:
        return any(self._is_least(low, start) for start, _ in ranges)

    def _goes_to(self, high: PrimExpr, ranges: list[Interval]) -> bool:
        return any(self._is_least(end, high) for _, end in ranges)

    def _is_least(self, low: PrimExpr, high: PrimExpr) -> bool:
        least = self._analyzer.const_int_bound(ops.sub(high, low))[0]
        return (least is not None and least >= 0) or self._analyzer.can_prove(ops.less_equal(low, high))

    def _is_box(self, indices: tuple[Index, ...], inner: Domains, of_block: bool) -> bool:
        """Whether `indices` take every value of a box while the loops of `inner` run.

        The axes of a block run over all of their ranges, however its loops were split, fused and shortened.
        """
        if not of_block and any(free_vars(end) & inner.keys() for ends in inner.values() for end in ends):
            return False
        variables, seen = list(inner), set[n.Var]()
        for index in indices:
            lanes = 1
            if isinstance(index, n.Ramp):
                lanes = index.lanes
                index = index.base if ops.as_int(index.stride) == 1 else None
            if index is None or index.dtype not in _INTEGERS:
                return False
            found = as_affine(self._analyzer.simplify(index), variables)
            if found is None:
                if of_block:
                    continue
                return False
            used = {var: abs(factor) for var, factor in zip(variables, found[0]) if factor}
            if seen & used.keys() or not _has_no_gaps(used, inner, lanes):
                return False
            seen |= used.keys()
        unused = [extent for var, (_, extent) in inner.items() if var not in seen]
        return of_block or all(self._is_least(ops.const(1, extent.dtype), extent) for extent in unused)

    def _is_start(self, condition: PrimExpr, write: _Access, within: Path) -> bool:
        """Whether `condition` holds at the start of those loops of `within` that `write` does not depend on."""
        fixed = set[n.Var]().union(*(free_vars(index) for index in write.indices if index is not None))
        starts = {
            step.over[0]: step.over[1]
            for step in within
            if step.over is not None and getattr(step.node, "kind", None) in _IN_TURN and step.over[0] not in fixed
        }
        if not all(step.certain for step in within):
            return False
        if any(free_vars(end) & starts.keys() for step in within if step.over for end in step.over[1:]):
            return False
        held = [part for step in within for part in step.conditions if free_vars(part) & starts.keys()]
        return all(self._analyzer.can_prove(substitute(part, starts)) for part in (condition, *held))

    # --------------------------------------------------------------------------- the same elements

    def _is_like(self, write: _Access, read: _Access, same: int) -> bool:
        """Whether both run over the same elements, with the same loops and under the same conditions."""
        ours = [step.over for step in write.path[same:] if step.over is not None]
        theirs = [step.over for step in read.path[same:] if step.over is not None]
        if len(ours) != len(theirs):
            return False
        names: dict[n.Var, PrimExpr] = {}
        for a, b in zip(ours, theirs):
            if not all(self._is_equal(substitute(x, names), y) for x, y in zip(a[1:], b[1:])):
                return False
            names[a[0]] = b[0]
        for left, right in zip(write.indices, read.indices):
            if left is None or right is None or not self._is_equal(substitute(left, names), right):
                return False
        holds = [part for step in read.path[same:] for part in step.conditions]
        needed = [substitute(part, names) for step in write.path[same:] for part in step.conditions]
        return all(
            self._analyzer.can_prove(part) or (_is_fixed(part) and any(same_expr(part, other) for other in holds))
            for part in needed
        )

    def _is_equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        if a.dtype in _INTEGERS and b.dtype in _INTEGERS:
            return self._analyzer.can_prove_equal(a, b)
        return same_expr(a, b)


class _Collector:
    """Collects all accesses of some buffers, in the order of the text.
    Blocks' variables become their values."""

    def __init__(self, by_data: Mapping[n.Var, n.Buffer], analyzer: Analyzer) -> None:
        self.accesses: dict[n.Buffer, list[_Access]] = {}
        self._by_data = by_data
        self._analyzer = analyzer
        self._within: set[n.Var] = set()  # defined within an expression
        self._blocks: list[n.Block] = []  # around the place that is read

    def statement(self, stmt: Node, path: Path, values: Values) -> None:
        match stmt:
            case n.SeqStmt():
                for part, child in enumerate(stmt.seq):
                    self.statement(child, (*path, _Step(stmt, part)), values)
            case n.For():
                self._expressions((stmt.min, stmt.extent), path, values)
                step = self._loop(stmt, stmt.loop_var, stmt.min, stmt.extent, values)
                self.statement(stmt.body, (*path, step), values)
            case n.IfThenElse():
                self._expressions((stmt.condition,), path, values)
                holds = tuple(substitute(part, values) for part in conjuncts(stmt.condition))
                self.statement(stmt.then_case, (*path, _Step(stmt, 0, conditions=holds)), values)
                if stmt.else_case is not None:
                    self.statement(stmt.else_case, (*path, _Step(stmt, 1, certain=False)), values)
            case n.While():
                self._expressions((stmt.condition,), path, values)
                self.statement(stmt.body, (*path, _Step(stmt, certain=False)), values)
            case n.LetStmt():
                self._expressions((stmt.value,), path, values)
                known = {**values, stmt.var: substitute(stmt.value, values)}
                self.statement(stmt.body, (*path, _Step(stmt)), known)
            case n.BlockRealize():
                self._block(stmt, path, values)
            case n.BufferStore():
                self._expressions((stmt.value, *stmt.indices), path, values)
                self._access(True, stmt.buffer, stmt.indices, path, values)
            case _:
                for part, inner in enumerate(children(stmt)):
                    if isinstance(inner, Stmt):
                        self.statement(inner, (*path, _Step(stmt, part)), values)
                    else:
                        self._expressions((inner,), path, values)

    def _loop(self, node: Node, var: n.Var, low: PrimExpr, extent: PrimExpr, values: Values) -> _Step:
        low, extent = substitute(low, values), substitute(extent, values)
        self._analyzer.bind(var, n.Range(low, extent))
        return _Step(node, over=(var, low, extent))

    def _block(self, realize: n.BlockRealize, path: Path, values: Values) -> None:
        self._expressions((*realize.iter_values, realize.predicate), path, values)
        block, inner = realize.block, dict(values)
        for iter_var, value in zip(block.iter_vars, realize.iter_values):
            inner[iter_var.var] = substitute(value, values)
        holds = tuple(substitute(part, values) for part in conjuncts(realize.predicate))
        types = {iter_var.iter_type for iter_var in block.iter_vars}
        path = (*path, _Step(realize, conditions=holds, is_block=bool(types) and types <= _AXES))
        for buffer in dict.fromkeys(match.source.buffer for match in block.match_buffers):
            if self._by_data.get(buffer.data) is buffer:
                if not any(region.buffer is buffer for region in (*block.reads, *block.writes)):
                    self._access(False, None, (), path, values, buffer)
                self._declared(buffer, block, path, inner, (False, True))
        self._blocks.append(block)
        self.statement(block.body, path, inner)
        self._blocks.pop()

    def _declared(self, buffer: n.Buffer, block: n.Block, path: Path, values: Values, parts: tuple[bool, ...]) -> None:
        """Take the regions of a buffer that `block` declares.
        They do not tell which elements are touched."""
        for part in parts:
            for region in block.writes if part else block.reads:
                if region.buffer is buffer:
                    at = [n.Var("at", dim.min.dtype) for dim in region.region]
                    over = [self._loop(block, v, d.min, d.extent, values) for v, d in zip(at, region.region)]
                    found = _Access(part, tuple(at), (*path, _Step(block, int(part)), *over))
                    self.accesses.setdefault(buffer, []).append(found)

    def _expressions(self, exprs: Iterable[Node], path: Path, values: Values) -> None:
        for expr in exprs:
            for node in walk(expr):
                match node:
                    case n.Let():
                        self._within.add(node.var)
                    case n.BufferLoad():
                        self._access(False, node.buffer, node.indices, path, values)
                    case n.Var() if node in self._by_data:
                        self._access(False, None, (), path, values, self._by_data[node])

    def _access(
        self, writes: bool, buffer: n.Buffer | None, indices: tuple[PrimExpr, ...], path: Path, values: Values,
        owner: n.Buffer | None = None,
    ) -> None:  # fmt: skip
        if buffer is not None:
            owner = self._by_data.get(buffer.data)
        if owner is None:
            return
        known: tuple[Index, ...] = (None,) * len(owner.shape)
        if buffer is owner and _is_over_rows(indices, owner):
            if self._blocks:
                self._declared(owner, self._blocks[-1], path, values, (writes,))
                return
        elif buffer is owner:
            places = [substitute(index, values) for index in indices]
            known = tuple(p if _is_fixed(p) and not free_vars(p) & self._within else None for p in places)
        self.accesses.setdefault(owner, []).append(_Access(writes, known, path))


def _is_over_rows(indices: tuple[PrimExpr, ...], buffer: n.Buffer) -> bool:
    """Whether a vector is longer than a row, as those of tensor intrinsics are."""
    sizes = (ops.as_int(size) for size in buffer.shape)
    return any(isinstance(i, n.Ramp) and (size is None or i.lanes > size) for i, size in zip(indices, sizes))


def _is_fixed(expr: PrimExpr) -> bool:
    """Whether `expr` depends on its variables only: it reads no memory."""
    for node in walk(expr):
        if isinstance(node, n.BufferLoad | n.ProducerLoad):
            return False
        if isinstance(node, n.Call) and (isinstance(node.op, GlobalVar) or not node.op.pure):
            return False
    return True


def _negative(condition: PrimExpr) -> PrimExpr | None:
    """Return what is negative exactly where `condition` holds; None for all but orderings of integers."""
    if not isinstance(condition, n.LT | n.LE | n.GT | n.GE) or condition.a.dtype not in _INTEGERS:
        return None
    less, greater = (condition.a, condition.b) if isinstance(condition, n.LT | n.LE) else (condition.b, condition.a)
    return ops.sub(ops.sub(less, greater), 1 if isinstance(condition, n.LE | n.GE) else 0)


def _position(path: Path, loop: n.For) -> int:
    return next(at for at, step in enumerate(path) if step.node is loop)


def _domains(path: Path) -> Domains:
    return {step.over[0]: step.over[1:] for step in path if step.over is not None}


def _shared(path: Path, buffer: n.Buffer) -> Domains:
    """The loops of `path` whose iterations are threads that see one and the same buffer."""
    if not buffer.scope.startswith("shared"):
        return {}
    bindings = ((step, getattr(step.node, "thread_binding", None)) for step in path)
    return _domains(tuple(s for s, by in bindings if by is not None and not by.thread_tag.startswith("blockIdx")))


def _has_no_gaps(used: dict[n.Var, int], inner: Domains, lanes: int) -> bool:
    """Whether a sum of multiples of these variables takes every value from its least to its greatest."""
    reach: int | None = lanes - 1
    for var, factor in sorted(used.items(), key=lambda item: item[1]):
        if reach is None or factor > reach + 1:
            return False
        extent = ops.as_int(inner[var][1])
        reach = None if extent is None else reach + factor * (extent - 1)
    return True
