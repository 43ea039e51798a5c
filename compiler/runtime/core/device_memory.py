"""Memory of a GPU, as arrays hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A piece of a device's memory: `nbytes` at `address`.
    `owner` is the driver's object, and keeps it."""

    address: int
    nbytes: int
    owner: Any = None
