"""Maps of a block's axes to indices, as texts for schedules."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.space.analysis import BlockAxis

Place = BlockAxis | Sequence[BlockAxis]
"""An index: an axis, or several that run through one after the other, the last the fastest."""


def index_map(axes: Sequence[BlockAxis], places: Sequence[Place]) -> str:
    """The map of `axes` to `places`: "lambda a0, a1, a2: (a0 * 7 + a1, a2,)"."""
    return f"lambda {', '.join(_name(a) for a in axes)}: ({', '.join(map(_index, places))},)"


def _name(axis: BlockAxis) -> str:
    return f"a{axis.position}"


def _index(place: Place) -> str:
    if isinstance(place, BlockAxis):
        return _name(place)
    text = _name(place[0])
    for axis in place[1:]:
        text = f"{text} * {axis.extent} + {_name(axis)}"
    return text


def joined(
    axes: Sequence[BlockAxis], pair: tuple[BlockAxis, BlockAxis], dropped: Sequence[BlockAxis] = (), last: bool = False
) -> str:
    """The map of `axes` that joins the pair to one index, without those `dropped`.
    The index stands last or in the second's place."""
    above, along = pair
    left = [a for a in axes if a is not above and a not in dropped and not (last and a is along)]
    rest: list[Place] = [pair if a is along else a for a in left]
    return index_map(axes, [*rest, pair] if last else rest)
