"""How tensors may lie in memory, and what that asks of an operator.

A rule gets the layouts of the arguments, as they are or as they are asked for. It answers which layouts the operator
wants, which layout its result has, and which attributes change. Layout conversion (a pass) puts transposes where
answers do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes import Call, TensorStructInfo, TupleStructInfo, info_of
from compiler.relax.nodes.dims import proven_equal


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of dimensions in memory: (axis, factor) each.

    Factor 0 is the axis, or its rest after blocking. `Layout.permuted((0, 2, 3, 1))` is NHWC of a tensor written as
    NCHW; NCHW16c ends with (1, 16).
    """

    dims: tuple[tuple[int, int], ...]

    @staticmethod
    def identity(ndim: int) -> Layout:
        return Layout(tuple((axis, 0) for axis in range(ndim)))

    @staticmethod
    def permuted(order: Sequence[int]) -> Layout:
        """The axes in the order they lie in memory."""
        return Layout(tuple((axis, 0) for axis in order))

    @staticmethod
    def between(written: str, stored: str) -> Layout:
        """How a tensor written as `written` ("NCHW") lies when it is `stored` ("NHWC", "NCHW16c")."""
        dims: list[tuple[int, int]] = []
        factor = ""
        for letter in stored:
            if letter.isdigit():
                factor += letter
                continue
            axis = written.find(letter.upper())
            if axis < 0 or letter.islower() != bool(factor):
                raise IRError(f"the layout {stored!r} does not fit a tensor written as {written!r}")
            dims.append((axis, int(factor or 0)))
            factor = ""
        if factor or sorted(axis for axis, size in dims if not size) != list(range(len(written))):
            raise IRError(f"the layout {stored!r} does not fit a tensor written as {written!r}")
        return Layout(tuple(dims))

    @property
    def ndim(self) -> int:
        """Dimensions as written."""
        return len({axis for axis, _ in self.dims})

    @property
    def is_identity(self) -> bool:
        return self == Layout.identity(self.ndim)

    @property
    def is_permutation(self) -> bool:
        """Whether it only orders dimensions, without blocks."""
        return not any(factor for _, factor in self.dims)

    def axis(self, axis: int) -> int:
        """Where the written `axis` (counted from the end where negative) lies."""
        wanted = axis + self.ndim if axis < 0 else axis
        return self.dims.index((wanted, 0))


Lies = Layout | tuple[Layout | None, ...] | None
"""How an argument lies: None as it was written, or no tensor; a tuple has an entry for each field."""


@dataclass(frozen=True, slots=True)
class LayoutUse:
    """One call, how its arguments lie now, and the layouts asked for by operator name."""

    call: Call
    inputs: tuple[Lies, ...]
    desired: Mapping[str, Sequence[str]]

    def ndim(self, position: int) -> int:
        """Dimensions of the argument at `position`; -1 where that is no tensor, or they are not known."""
        info = info_of(self.call.args[position])
        return info.ndim if isinstance(info, TensorStructInfo) else -1

    def permuted(self, position: int = 0) -> Layout | None:
        """How the argument at `position` lies, where that only orders its dimensions; else None."""
        found = self.inputs[position]
        return found if isinstance(found, Layout) and found.is_permutation else None

    def lies(self, position: int = 0) -> Layout | None:
        """How the argument at `position` lies; None for tuples."""
        found = self.inputs[position]
        return found if isinstance(found, Layout) else None


@dataclass(frozen=True, slots=True)
class LayoutResult:
    """The new layouts of a call: of its arguments, of its results (an entry each); changed attributes.

    None asks for an argument as it was written. `attrs` has the attributes that change. `args` has, by position, the
    arguments that change, such as the axes of a slice. A layout may have more dimensions than the argument. Then
    dimensions of size 1 come before its own, as in broadcasting, and all of them lie as it says.
    """

    inputs: tuple[Lies, ...]
    outputs: tuple[Layout | None, ...]
    attrs: Mapping[str, Any]
    args: Mapping[int, RelaxExpr] = field(default_factory=dict)


LayoutRule = Callable[[LayoutUse], LayoutResult]


def results_of(call: Call) -> int:
    """How many results a call has."""
    info = info_of(call)
    return len(info.fields) if isinstance(info, TupleStructInfo) else 1


def as_written(use: LayoutUse) -> LayoutResult:
    """Give the layouts of an operator that needs its tensors as they were written."""
    return LayoutResult((None,) * len(use.inputs), (None,) * results_of(use.call), {})


def follows(use: LayoutUse) -> LayoutResult:
    """Give the layouts of an elementwise operator: all arguments follow one.

    They follow the first argument of the greatest rank that is not as written. Arguments of lower rank get dimensions
    of 1; scalars stay as they are.
    """
    ranks = [use.ndim(i) for i in range(len(use.inputs))]
    rank = max(ranks, default=-1)
    lying = [use.lies(i) for i in range(len(use.inputs))]
    chosen = next((x for x in lying if x is not None and not x.is_identity and x.ndim == rank), None)
    if chosen is None or -1 in ranks:
        return as_written(use)
    if not chosen.is_permutation and any(own != rank or not _same_sizes(use, i) for i, own in enumerate(ranks) if own):
        return as_written(use)  # blocks of a dimension that is broadcast
    return LayoutResult(tuple([chosen if own else None for own in ranks]), (chosen,), {})


def _same_sizes(use: LayoutUse, position: int) -> bool:
    """Whether an argument has the sizes of the result, nothing broadcast."""
    own, whole = info_of(use.call.args[position]), info_of(use.call)
    if not isinstance(own, TensorStructInfo) or not isinstance(whole, TensorStructInfo):
        return False
    if own.dims is None or whole.dims is None:
        return False
    return all(proven_equal(a, b) for a, b in zip(own.dims, whole.dims))


def follows_first(use: LayoutUse) -> LayoutResult:
    """Give the layouts of an elementwise operator whose results follow its first argument."""
    chosen = use.lies()
    if chosen is None:
        return as_written(use)
    return LayoutResult((chosen, *[None] * (len(use.inputs) - 1)), (chosen,) * results_of(use.call), {})


def follows_with_axis(name: str) -> LayoutRule:
    """Lay out a one-tensor operator along the axis in attribute `name`, which moves with the layout."""

    def rule(use: LayoutUse) -> LayoutResult:
        chosen, axis = use.permuted(), use.call.attrs[name]
        if chosen is None or axis is None:
            return as_written(use)
        moved = chosen.axis(axis) if isinstance(axis, int) else tuple(map(chosen.axis, axis))
        rest = (None,) * (len(use.inputs) - 1)
        return LayoutResult((chosen, *rest), (chosen,) * results_of(use.call), {name: moved})

    return rule


def all_follow_with_axis(name: str) -> LayoutRule:
    """Let several tensors of one rank follow the first that is not as written.
    The attribute `name` moves with the layout."""

    def rule(use: LayoutUse) -> LayoutResult:
        found = [use.permuted(i) for i in range(len(use.inputs))]
        chosen = next((x for x in found if x is not None and not x.is_identity), None)
        ranks = {use.ndim(i) for i in range(len(use.inputs))}
        if chosen is None or ranks != {chosen.ndim}:
            return as_written(use)
        return LayoutResult((chosen,) * len(use.inputs), (chosen,), {name: chosen.axis(use.call.attrs[name])})

    return rule


def fields_follow(use: LayoutUse) -> Layout | None:
    """Return the layout of all tensors in a tuple, the only argument.
    It is that of the first one that has a layout."""
    given = use.inputs[0]
    info = info_of(use.call.args[0])
    if not isinstance(given, tuple) or not isinstance(info, TupleStructInfo):
        return None
    moved = (x for x in given if x is not None and x.is_permutation and not x.is_identity)
    chosen = next(moved, None)
    ranks = {item.ndim if isinstance(item, TensorStructInfo) else -1 for item in info.fields}
    return chosen if chosen is not None and ranks == {chosen.ndim} else None


def with_dimensions(layout: Layout, axes: Sequence[int]) -> Layout:
    """A permutation with new dimensions `axes` of the result, each lying at its own place."""
    rank = layout.ndim + len(axes)
    kept = [d for d in range(rank) if d not in axes]
    order = [kept[d] for d, _ in layout.dims]
    for axis in sorted(axes):
        order.insert(axis, axis)
    return Layout.permuted(order)


def without_dimensions(layout: Layout, axes: Sequence[int]) -> Layout:
    """A permutation without the dimensions `axes`."""
    kept = sorted(d for d, _ in layout.dims if d not in axes)
    return Layout.permuted([kept.index(d) for d, _ in layout.dims if d not in axes])
