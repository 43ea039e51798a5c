"""Effects of steps on functions, cached for the next trace that takes the same steps on them.

Traces of one sketch differ in decisions only, so the steps before the first difference are the same each time.
Primitives are pure, and functions are never changed. The same step of the same function therefore has the same effect.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compiler.schedule.core.state import StepEffect, Value
from compiler.schedule.core.step import REMEMBERED, Step
from compiler.tir import nodes as n

_Key = tuple[object, ...]
_Entry = tuple[n.PrimFunc, Sequence[Value | None], StepEffect]


class Effects:
    """The effects of the last `most` different steps.

    Functions and variables are compared by identity and kept alive with the effect; steps are compared by their text.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._known: OrderedDict[_Key, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, func: n.PrimFunc, step: Step, values: Sequence[Value | None]) -> StepEffect | None:
        """Return what `step` did to `func`, with `values` for its inputs; None if that is not known."""
        key = _key(func, step, values)
        entry = self._known.get(key)
        if entry is None:
            return None
        self._known.move_to_end(key)
        return entry[2]

    def keep(self, func: n.PrimFunc, step: Step, values: Sequence[Value | None], effect: StepEffect) -> None:
        """Remember `effect`. All objects in its key are kept alive with it, so that no other object gets their
        identity."""
        self._known[_key(func, step, values)] = (func, values, effect)
        if len(self._known) > self._most:
            self._known.popitem(last=False)


def _key(func: n.PrimFunc, step: Step, values: Sequence[Value | None]) -> _Key:
    said = step.prim, repr(step.attrs), len(step.inputs)  # what the inputs are called does not matter
    return (id(func), *said, *[(id(v),) if isinstance(v, n.Var) else (type(v), v) for v in values])


@contextmanager
def remembered(most: int = 4096) -> Iterator[Effects]:
    """Cache steps inside of the `with` block, so that none is computed twice for the same function.
    Sketches of a function begin alike, and each is replayed. Nested blocks share one cache."""
    outer = REMEMBERED.get()
    if outer is not None:
        yield outer
        return
    own = Effects(most)
    token = REMEMBERED.set(own)
    try:
        yield own
    finally:
        REMEMBERED.reset(token)
