"""Where a tensor lives: a target, one of its devices, a memory scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.text import quote, register_value
from compiler.target.target import Target


@dataclass(frozen=True, slots=True)
class VDevice(Node):
    """A device that a graph names before it is known which one it will be. Equal when all three parts are."""

    target: Target
    vdevice_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self) -> None:
        if not isinstance(self.target, Target):
            object.__setattr__(self, "target", Target(self.target))

    def __repr__(self) -> str:
        return f"{self.target.kind}:{self.vdevice_id}:{self.memory_scope}"


def _text(device: VDevice) -> str:
    return f"I.vdevice({quote(str(device.target))}, {device.vdevice_id}, {quote(device.memory_scope)})"


register_value(VDevice, _text)


def as_vdevice(value: Any) -> VDevice | None:
    """A `VDevice`, or text such as "cuda", "cuda:1" or "llvm:0:global". Raises IRError for anything else."""
    if value is None or isinstance(value, VDevice):
        return value
    if isinstance(value, Target):
        return VDevice(value)
    if not isinstance(value, str):
        raise IRError(f"{value!r} ({type(value).__name__}) names no device", hint='for instance "cuda:0"')
    kind, _, rest = value.partition(":")
    number, _, scope = rest.partition(":")
    if number and not number.isdigit():
        raise IRError(f"the device {value!r} has the number {number!r}", hint='for instance "cuda:0"')
    return VDevice(Target(kind), int(number or 0), scope or "global")
