"""How tensors may lie in memory, and what that asks of an operator.

A rule answers: given how the arguments lie (or are asked to lie), how does the operator want them, how does its result
lie, and which attributes change. Layout conversion (a pass) puts transposes where answers do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import IRError
from compiler.relax.nodes import Call, TensorStructInfo, info_of


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of dimensions in memory: (axis, factor) each; factor 0 is the axis, or what blocks leave of it.

    `Layout.permuted((0, 2, 3, 1))` is NHWC of a tensor written as NCHW; NCHW16c ends with (1, 16).
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


@dataclass(frozen=True, slots=True)
class LayoutUse:
    """One call, how its tensor arguments lie now (None: no tensor, or unknown), and the layouts asked for by name."""

    call: Call
    inputs: tuple[Layout | None, ...]
    desired: Mapping[str, Sequence[str]]

    def ndim(self, position: int) -> int:
        info = info_of(self.call.args[position])
        return info.ndim if isinstance(info, TensorStructInfo) else -1


@dataclass(frozen=True, slots=True)
class LayoutResult:
    """How the call wants its arguments (None: as they were written), how its results lie, attributes that change."""

    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout | None, ...]
    attrs: Mapping[str, Any]


LayoutRule = Callable[[LayoutUse], LayoutResult]


def as_written(use: LayoutUse) -> LayoutResult:
    """An operator that works on tensors only as they were written."""
    return LayoutResult((None,) * len(use.inputs), (None,), {})


def follows(use: LayoutUse) -> LayoutResult:
    """An elementwise operator: all arguments of the greatest rank lie as the first that is not as written."""
    rank = max((use.ndim(i) for i in range(len(use.inputs))), default=-1)
    chosen = next((x for x in use.inputs if x is not None and not x.is_identity and x.ndim == rank), None)
    if chosen is None or any(0 < use.ndim(i) < rank or use.ndim(i) < 0 for i in range(len(use.inputs))):
        return as_written(use)
    inputs = tuple([chosen if use.ndim(i) == rank else None for i in range(len(use.inputs))])
    return LayoutResult(inputs, (chosen,), {})


def follows_first(use: LayoutUse) -> LayoutResult:
    """An elementwise operator of its first argument: the result lies as it does."""
    chosen = use.inputs[0]
    if chosen is None:
        return as_written(use)
    return LayoutResult((chosen, *[None] * (len(use.inputs) - 1)), (chosen,), {})


def follows_with_axis(name: str) -> LayoutRule:
    """An operator of one tensor along the axis that the attribute `name` says: the attribute moves with the layout."""

    def rule(use: LayoutUse) -> LayoutResult:
        chosen = use.inputs[0]
        if chosen is None or not chosen.is_permutation:
            return as_written(use)
        axis = use.call.attrs[name]
        if axis is None:
            return as_written(use)
        moved = chosen.axis(axis) if isinstance(axis, int) else tuple(map(chosen.axis, axis))
        return LayoutResult((chosen, *[None] * (len(use.inputs) - 1)), (chosen,), {name: moved})

    return rule
