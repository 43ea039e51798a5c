"""The table of passes and their boxes: what a relay knows, without its I/O.

A box repeats every few seconds which passes are valid. So a relay that was restarted knows all after one round, and
nothing is left of a box that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rpc_server.relay.passes import RelayPass
from rpc_server.wire.relay_messages import SILENCE_S

MAX_BOXES = 1 << 16
MAX_LINES = 64
"""Most connections at a time through one box's pass, so that none can fill the relay."""


@dataclass(slots=True)
class Registered:
    """A box: where its control messages go, and whose key said so. `route` changes when it connects anew."""

    name: str
    route: bytes
    public: str
    seen: float
    passes: dict[bytes, RelayPass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """Ids of passes that are good from now on, and of those that are no more."""

    new: frozenset[bytes] = frozenset()
    gone: frozenset[bytes] = frozenset()


class RelayPassTable:
    """`now` is monotonic seconds throughout."""

    def __init__(self) -> None:
        self._boxes: dict[bytes, Registered] = {}  # by route, the one heard longest ago first
        self._box_of: dict[bytes, Registered] = {}  # by the id of a pass

    def __len__(self) -> int:
        return len(self._boxes)

    def is_full_for(self, route: bytes) -> bool:
        return len(self._boxes) >= MAX_BOXES and route not in self._boxes

    def heard(self, route: bytes, public: str, name: str, passes: Iterable[RelayPass], now: float) -> Changes:
        """Note which passes lead to a box. A pass that another key's box has stays with that one."""
        box = self._boxes.pop(route, None) or Registered(name, route, public, now)
        box.name, box.public, box.seen = name, public, now
        self._boxes[route] = box
        good: dict[bytes, RelayPass] = {}
        for given in passes:
            holder = self._box_of.get(given.id)
            if holder is None or holder is box or (holder.public == public and holder.name == name):
                good[given.id] = given
        new = frozenset(key for key in good if key not in self._box_of)
        gone = frozenset(key for key in box.passes if key not in good and self._box_of.get(key) is box)
        for key in gone:
            del self._box_of[key]
        box.passes = good
        self._box_of.update(dict.fromkeys(good, box))
        return Changes(new, gone)

    def find(self, id_of_pass: bytes) -> tuple[Registered, RelayPass] | None:
        """Where a pass leads to now."""
        box = self._box_of.get(id_of_pass)
        return None if box is None else (box, box.passes[id_of_pass])

    def forget(self, route: bytes) -> list[bytes]:
        """Forget a box that cannot be reached, or is served no more.
        Returns ids of its passes, which are valid again when it is back."""
        box = self._boxes.pop(route, None)
        gone = [] if box is None else [key for key in box.passes if self._box_of.get(key) is box]
        for key in gone:
            del self._box_of[key]
        return gone

    def expire(self, now: float) -> list[Registered]:
        """Forget the boxes that have been silent for too long, and return them."""
        silent: list[Registered] = []
        for box in self._boxes.values():
            if now - box.seen <= SILENCE_S:
                break
            silent.append(box)
        for box in silent:
            self.forget(box.route)
        return silent
