"""Which values of a dataflow block become one kernel.

A value and the value that all its uses lead to (its immediate post-dominator) go into one group with all that lies
between. A group therefore has one result, and nothing outside reads its inner values:

        x ── conv2d ─┬─ sigmoid ─┐          x ── fused_conv2d_sigmoid_multiply ──
                     └───────────┴ multiply

1. Each kernel that reduces or multiplies (an anchor) takes what is computed from its result element by element. A sum
   of rows also takes what is computed from it and the rows: softmax and layer norm written out become one kernel.
2. Any other value joins the group that it leads to: chains of element-wise kernels become one, and what an anchor
   alone reads becomes part of it.
3. An anchor takes what is left of what is computed from it alone: a transpose or padding of its result.

A group has at most `MOST_KERNELS` kernels. Fusing must not multiply work. If several places that read values compute
them again, a group's operations are at most `MOST_WORK` times those of its kernels apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.arith.linear import same_expr
from compiler.relax.fusion.kernel_pattern import InputUse, KernelPattern, Reads, is_unit
from compiler.relax.op.core.registry import OpPatternKind
from compiler.tir.nodes import PrimExpr

MOST_KERNELS = 64
MOST_WORK = 1.5
_LITTLE = 4096.0
"""Operations that may be done again whatever the share: fewer than a call costs."""
_ANCHORS = (OpPatternKind.COMM_REDUCE, OpPatternKind.OUT_ELEMWISE_FUSABLE)
_FREE = InputUse(Reads.POINT, 1)


@dataclass(frozen=True, slots=True)
class BlockValue:
    """A value of a block. `sources` has what it reads: a value of the block by its number, or None.

    `pattern` is None for what is never fused. `is_view` marks copies of memory as it lies, `is_field` fields of tuples;
    both are free. `dims` is None for a tuple, `size` the number of all its elements. `kept` values are read outside of
    the block.
    """

    sources: tuple[int | None, ...]
    pattern: KernelPattern | None = None
    source_dims: tuple[tuple[PrimExpr, ...] | None, ...] = ()
    dims: tuple[PrimExpr, ...] | None = None
    size: float = 1.0
    kept: bool = False
    is_view: bool = False
    is_field: bool = False
    device: Any = None

    @property
    def kind(self) -> OpPatternKind:
        if self.is_field:
            return OpPatternKind.ELEMWISE
        return OpPatternKind.OPAQUE if self.pattern is None else self.pattern.kind

    @property
    def is_anchor(self) -> bool:
        return self.kind in _ANCHORS

    def use(self, position: int) -> InputUse:
        """How it reads its source `position`."""
        return _FREE if self.pattern is None else self.pattern.inputs[position]


@dataclass(slots=True)
class _Group:
    members: list[int]
    anchor: int | None
    end: int = field(default=-1)


def grouped(values: Sequence[BlockValue], most_kernels: int = MOST_KERNELS) -> list[list[int]]:
    """The groups of at least two values, each in order; the last of a group is its result."""
    return _Grouping(values, most_kernels).groups()


class _Grouping:
    def __init__(self, values: Sequence[BlockValue], most_kernels: int) -> None:
        self._values = values
        self._most = most_kernels
        self._users: list[list[int]] = [[] for _ in values]
        for number, value in enumerate(values):
            for source in dict.fromkeys(value.sources):
                if source is not None:
                    self._users[source].append(number)
        self._next = self._post_dominators()
        self._group = [
            _Group([number], number if value.is_anchor else None, number) for number, value in enumerate(values)
        ]

    def groups(self) -> list[list[int]]:
        for number, value in enumerate(self._values):
            if value.is_anchor:
                self._extend(number)
        for number, value in enumerate(self._values):
            if value.kind <= OpPatternKind.INJECTIVE and self._group[number].anchor is None:
                self._join(number)
        for number, value in enumerate(self._values):
            if value.is_anchor:
                self._take_rest(number)
        found = {id(group): group.members for group in self._group}
        trimmed = [self._trimmed(sorted(members)) for members in found.values()]
        return [members for members in trimmed if len(members) > 1]

    # ------------------------------------------------------------------------------ dominators

    def _post_dominators(self) -> list[int | None]:
        """For each value, the nearest later one that all its uses lead to; None if there is none near."""
        count = len(self._values)
        found: list[int | None] = [None] * count
        depth = [0] * count
        for number in range(count - 1, -1, -1):
            users = self._users[number]
            if self._values[number].kept or not users:
                continue
            meeting: int | None = users[0]
            for user in users[1:]:
                meeting = self._meeting(meeting, user, found, depth)
            found[number] = meeting
            depth[number] = 0 if meeting is None else depth[meeting] + 1
        return found

    def _meeting(self, a: int | None, b: int | None, up: list[int | None], depth: list[int]) -> int | None:
        """Where two paths meet; None if that is further than a group may reach."""
        for _ in range(2 * self._most):
            if a is None or b is None or a == b:
                return a if a == b else None
            if depth[a] >= depth[b]:
                a = up[a]
            else:
                b = up[b]
        return None

    def _between(self, first: int, last: int) -> list[int] | None:
        """Return what lies on paths from `first` to `last`, both left out; None if that is too much."""
        seen: dict[int, None] = {}
        pending = [user for user in self._users[first] if user != last]
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen[number] = None
            if len(seen) > self._most:
                return None
            pending += [user for user in self._users[number] if user != last]
        return list(seen)

    # --------------------------------------------------------------------------------- anchors

    def _extend(self, anchor: int) -> None:
        """Let an anchor take what is computed from its result."""
        values = self._values
        rows = _Rows.of(values, anchor)
        while True:
            group = self._group[anchor]
            target = self._next[group.end]
            between = None if target is None else self._between(group.end, target)
            if target is None or between is None:
                return
            added = sorted({target, *between})
            inside = {*group.members, *added}
            fits = all(
                self._is_single(number) and values[number].device == values[anchor].device for number in added
            ) and all(
                self._follows(anchor, number, inside) or (rows is not None and rows.takes(number, inside))
                for number in added
            )
            if not fits or not self._merge(inside, target):
                return

    def _take_rest(self, anchor: int) -> None:
        """Let an anchor take in groups without an anchor that are computed from its result alone."""
        values = self._values
        while True:
            group = self._group[anchor]
            target = self._next[group.end]
            between = None if target is None else self._between(group.end, target)
            if target is None or between is None:
                return
            others = [self._group[number] for number in (*between, target)]
            if any(other.anchor is not None for other in others):
                return
            inside = {*group.members, *(number for other in others for number in other.members)}
            fused = inside.difference(group.members)
            if any(values[number].kind > OpPatternKind.INJECTIVE for number in fused) or any(
                values[number].device != values[anchor].device or self._adds_to(number, inside) for number in fused
            ):
                return
            if not self._merge(inside, self._group[target].end):
                return

    def _adds_to(self, number: int, inside: set[int]) -> bool:
        """Whether a value adds other data to the group's, as a concatenation does."""
        value = self._values[number]
        moved = any(
            source in inside and value.use(place).reads is Reads.INJECTIVE for place, source in enumerate(value.sources)
        )
        return moved and any(source not in inside for source in value.sources)

    def _is_single(self, number: int) -> bool:
        return len(self._group[number].members) == 1

    def _follows(self, anchor: int, number: int, inside: set[int]) -> bool:
        """Whether a value reads the group's values at its own place, and has the shape of the anchor's result."""
        value, wanted = self._values[number], self._values[anchor].dims
        if value.kind > OpPatternKind.BROADCAST or value.dims is None or wanted is None or value.is_field:
            return False
        if not same_dims(value.dims, wanted):
            return False
        return all(
            value.use(position).reads is Reads.POINT
            for position, source in enumerate(value.sources)
            if source is not None and source in inside
        )

    # ------------------------------------------------------------------------------- all others

    def _join(self, number: int) -> None:
        """Put a value into the group that it leads to."""
        values, group = self._values, self._group[number]
        target = self._next[number]
        if target is None or group.end != number:
            return
        into = self._group[target]
        if into is group or (into.anchor is None and values[target].kind > OpPatternKind.INJECTIVE):
            return
        between = self._between(number, target)
        if between is None:
            return
        inside = {*group.members, *into.members}
        for other in between:
            theirs = self._group[other]
            if theirs is not into and (theirs.anchor is not None or values[other].kind > OpPatternKind.INJECTIVE):
                return
            inside.update(theirs.members)
        if all(values[other].device == values[number].device for other in inside):
            self._merge(inside, into.end)

    def _merge(self, inside: set[int], end: int) -> bool:
        """Make one group of `inside`, unless it is too large or does too much."""
        if len(inside) > self._most or not self._is_cheap(inside, end):
            return False
        anchors = [number for number in inside if self._values[number].is_anchor]
        made = _Group(sorted(inside), anchors[0] if anchors else None, end)
        for number in inside:
            self._group[number] = made
        return True

    def _is_cheap(self, inside: set[int], end: int) -> bool:
        """Whether a group does little more work than its kernels apart.

        A value that only kernels without a sum read is computed at each reader. Readers at the same place share one
        computation.
        """
        alone = together = 0.0
        times: dict[int, float] = {}
        for number in sorted(inside, reverse=True):
            value = self._values[number]
            pattern = value.pattern
            own = value.size
            computed = own
            if number != end and not value.is_anchor:
                computed = self._evaluations(number, inside, times, own)
            times[number] = computed
            work = 0.0 if pattern is None else pattern.work
            alone += work
            together += work * max(1.0, computed / own)
        return together <= max(MOST_WORK * alone, alone + _LITTLE)

    def _evaluations(self, number: int, inside: set[int], times: dict[int, float], own: float) -> float:
        shared = apart = 0.0
        for user in self._users[number]:
            if user not in inside:
                continue
            reader = self._values[user]
            for position, source in enumerate(reader.sources):
                if source != number:
                    continue
                use = reader.use(position)
                if use.reads is Reads.REDUCED:
                    return own
                if use.reads is Reads.POINT:
                    shared = max(shared, times[user])
                else:
                    apart += times[user] * use.loads
        return shared + apart

    def _trimmed(self, members: list[int]) -> list[int]:
        """Drop views and fields of tuples at the ends of a group: by themselves they are free."""
        inside = set(members)
        while len(inside) > 1:
            first = [number for number in inside if self._is_free(number) and not self._sources(number) & inside]
            last = max(inside)
            if not first and not self._is_free(last):
                break
            inside -= {*first} if first else {last}
        return sorted(inside)

    def _is_free(self, number: int) -> bool:
        return self._values[number].is_view or self._values[number].is_field

    def _sources(self, number: int) -> set[int | None]:
        return set(self._values[number].sources)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that are summed: an anchor may take in values that are computed from the sums and the rows."""

    values: Sequence[BlockValue]
    kept: tuple[PrimExpr, ...]
    whole: tuple[PrimExpr, ...]

    @staticmethod
    def of(values: Sequence[BlockValue], anchor: int) -> _Rows | None:
        """The rows that an anchor reduces, where it does."""
        value = values[anchor]
        if value.pattern is None or value.pattern.rows is None or value.dims is None:
            return None
        for position, whole in enumerate(value.source_dims):
            if value.use(position).reads is not Reads.REDUCED:
                continue
            if whole is not None and len(whole) > value.pattern.rows:
                return _Rows(values, whole[: value.pattern.rows], whole)
        return None

    def takes(self, number: int, inside: Iterable[int]) -> bool:
        """Whether a value is computed row by row, from rows and sums of rows."""
        value = self.values[number]
        if value.dims is None or value.is_field or value.pattern is None:
            return False
        held = set(inside)
        sources = [(position, source) for position, source in enumerate(value.sources) if source in held]
        if value.is_anchor:
            rows = _Rows.of(self.values, number)
            return rows is not None and same_dims(rows.whole, self.whole) and same_dims(rows.kept, self.kept)
        if value.kind > OpPatternKind.BROADCAST:
            return False
        if not same_dims(value.dims, self.whole) and not self._has_rows(value.dims):
            return False
        return all(value.use(position).reads <= Reads.BROADCAST for position, _ in sources)

    def _has_rows(self, dims: Sequence[PrimExpr]) -> bool:
        return same_dims(dims, self.kept) or same_dims(dims, self.whole)


def same_dims(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    """Whether two shapes are the same but for dimensions of one element."""
    left, right = ([size for size in dims if not is_unit(size)] for dims in (a, b))
    return len(left) == len(right) and all(x is y or same_expr(x, y) for x, y in zip(left, right))
