"""Memory of a GPU, as arrays hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """`nbytes` at `address` of a device's memory. `owner` is what the driver gave for it, and keeps it."""

    address: int
    nbytes: int
    owner: Any = None
