"""The picture of a model's graph: calls in rows, each below those whose results it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.records.model_store.facts import GraphCall

BOX_WIDTH, BOX_HEIGHT = 172.0, 30.0
_GAP_X, _GAP_Y, _MARGIN = 26.0, 26.0, 16.0
_TEXT_WIDTH = BOX_WIDTH - 10
_LETTER = 12.0
"""Size of the labels' letters, as in the style sheet."""
_WIDTHS = {**dict.fromkeys("fijlrtI.,:;'|!()[] ", 0.38), **dict.fromkeys("_sck", 0.53), **dict.fromkeys("mwMW@%", 1.0)}
"""About how wide letters are, in their size; others take 0.63, capitals 0.72."""
_END = 7
"""Last letters of a name that does not fit: there kernels of one operator differ."""
HEATS = 5
"""Colours of boxes beside that of a kernel without a known time."""
_STEPS = (0.02, 0.08, 0.2, 0.4)


@dataclass(frozen=True)
class CallBox:
    """A call at its place. `heat` is 0 where its kernel's time is not known, else 1 to HEATS by its share."""

    x: float
    y: float
    label: str
    heat: int
    text: str
    workload: str | None


@dataclass(frozen=True)
class GraphPicture:
    """Boxes and the lines between them, in user units."""

    width: float
    height: float
    boxes: tuple[CallBox, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class CallShare:
    """A kernel's share of the model's time, from 0 to 1, and its text."""

    share: float
    text: str


def graph_picture(calls: Sequence[GraphCall], shares: Mapping[str, CallShare]) -> GraphPicture:
    """Draw the calls. `shares` are those of kernels whose time is known, by the name that calls have."""
    rows = _rows(calls)
    widest = max((len(row) for row in rows), default=1)
    width = 2 * _MARGIN + widest * BOX_WIDTH + (widest - 1) * _GAP_X
    places: dict[int, tuple[float, float]] = {}
    for depth, row in enumerate(rows):
        wanted = sorted(row, key=lambda at: (_middle([places[i][0] for i in calls[at].inputs]), at))
        begin = (width - len(row) * BOX_WIDTH - (len(row) - 1) * _GAP_X) / 2
        for column, at in enumerate(wanted):
            places[at] = begin + column * (BOX_WIDTH + _GAP_X), _MARGIN + depth * (BOX_HEIGHT + _GAP_Y)
    boxes = [_box(call, *places[at], shares.get(call.name)) for at, call in enumerate(calls)]
    lines = [_line(places[before], places[at]) for at, call in enumerate(calls) for before in call.inputs]
    height = 2 * _MARGIN + len(rows) * BOX_HEIGHT + max(0, len(rows) - 1) * _GAP_Y
    return GraphPicture(width, height, tuple(boxes), tuple(lines))


def _rows(calls: Sequence[GraphCall]) -> list[list[int]]:
    """The calls by how many come before them at most."""
    depths: list[int] = []
    for call in calls:
        depths.append(max((depths[at] + 1 for at in call.inputs), default=0))
    rows: list[list[int]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for at, depth in enumerate(depths):
        rows[depth].append(at)
    return rows


def _middle(places: Sequence[float]) -> float:
    return sum(places) / len(places) if places else 0.0


def _box(call: GraphCall, x: float, y: float, share: CallShare | None) -> CallBox:
    heat = 0 if share is None else 1 + sum(share.share >= step for step in _STEPS)
    return CallBox(x, y, label_of(call.name), heat, call.name if share is None else share.text, call.workload)


def label_of(name: str) -> str:
    """The name, or as much of its beginning as fits in a box, and its end."""
    if _width(name) <= _TEXT_WIDTH:
        return name
    end = f"…{name[-_END:]}"
    begin = name[:-_END]
    while begin and _width(begin + end) > _TEXT_WIDTH:
        begin = begin[:-1]
    return begin + end


def _width(text: str) -> float:
    """About how wide a label is, in user units."""
    return sum(_LETTER * _WIDTHS.get(letter, 0.72 if letter.isupper() else 0.63) for letter in text)


def _line(above: tuple[float, float], below: tuple[float, float]) -> str:
    """A curve from the foot of one box to the head of another.
    If it skips rows, it passes the boxes between."""
    x1, y1 = above[0] + BOX_WIDTH / 2, above[1] + BOX_HEIGHT
    x2, y2 = below[0] + BOX_WIDTH / 2, below[1]
    if y2 - y1 <= _GAP_Y + 1 or x1 != x2:
        bend = (y2 - y1) / 2
        return f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2:.0f}"
    side = x1 + BOX_WIDTH / 2 + 10
    return (
        f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + 14:.0f} {side:.0f},{y1 + 4:.0f} {side:.0f},{y1 + 26:.0f} "
        f"L{side:.0f},{y2 - 26:.0f} C{side:.0f},{y2 - 4:.0f} {x2:.0f},{y2 - 14:.0f} {x2:.0f},{y2:.0f}"
    )
