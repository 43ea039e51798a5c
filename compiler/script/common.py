"""The meaning of `I.name` in expressions: values that modules of all dialects share."""

from __future__ import annotations

from typing import Any

from compiler.errors import IRError
from compiler.ir.vdevice import VDevice
from compiler.script.dialect import Dialect, register
from compiler.target.target import Target


def vdevice(target: Any = None, vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """A device that graphs name: a target, one of its devices, a memory scope."""
    if target is None:
        raise IRError("I.vdevice needs a target", hint='for instance I.vdevice("cuda", 0)')
    if isinstance(target, dict):
        target = Target({key: value for key, value in target.items() if key not in ("keys", "tag")})
    return VDevice(target, vdevice_id, memory_scope)


_NAMES = {"vdevice": vdevice}
register(Dialect("ir", "I", {}, _NAMES.get, _NAMES.keys))
