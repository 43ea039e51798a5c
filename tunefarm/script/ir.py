"""`from tunefarm.script import ir as I`: modules."""

from collections.abc import Sequence
from typing import Any

from compiler.errors import IRError
from compiler.script.common import vdevice
from compiler.script.entry import ir_module

__all__ = ["ir_module", "module_attrs", "module_global_infos", "vdevice"]
__script_namespace__ = "ir"


def module_attrs(attrs: dict[str, Any]) -> None:
    """The attributes of the module: read by `ir_module`; outside of one it does nothing."""
    if not isinstance(attrs, dict):
        raise IRError("I.module_attrs takes a dict of attributes")


def module_global_infos(infos: dict[str, Sequence[Any]]) -> None:
    """Give global infos of the module's functions, such as devices, to `ir_module`.
    Outside of one it does nothing."""
    if not isinstance(infos, dict) or not all(isinstance(items, list | tuple) for items in infos.values()):
        raise IRError('I.module_global_infos takes lists by name: {"vdevice": [I.vdevice("llvm")]}')
