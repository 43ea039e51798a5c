"""Frames of modules: `with I.ir_module():` around functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.script.common import vdevice
from tunefarm.compatibility import refusing
from tunefarm.script.ir_builder.base import Frame, IRBuilder, frame_of

__all__ = [
    "ir_module",
    "module_attrs",
    "module_get_attr",
    "module_global_infos",
    "module_set_attr",
    "vdevice",
]

__getattr__ = refusing(__name__)


class ModuleFrame(Frame):
    """The functions made inside are a module's."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[Any, BaseFunc] = {}
        self.attrs: dict[str, Any] = {}
        self.infos: dict[str, list[Any]] = {}

    def close(self, builder: IRBuilder) -> None:
        builder.finish(IRModule(self.functions, self.attrs, self.infos))


def ir_module() -> ModuleFrame:
    """A frame that makes an IRModule."""
    return ModuleFrame()


def module_attrs(attrs: Mapping[str, Any], allow_overwrite: bool = False) -> None:
    """Give the module attributes."""
    frame_of(ModuleFrame, "I.module_attrs").attrs.update(attrs)


def module_get_attr(attr_key: str) -> Any:
    """An attribute of the module made here; None where it has none."""
    return frame_of(ModuleFrame, "I.module_get_attr").attrs.get(attr_key)


def module_set_attr(attr_key: str, attr_value: Any, allow_overwrite: bool = False) -> None:
    """Give the module an attribute."""
    frame_of(ModuleFrame, "I.module_set_attr").attrs[attr_key] = attr_value


def module_global_infos(global_infos: Mapping[str, Sequence[Any]]) -> None:
    """Say what the functions of the module share."""
    infos = {key: list(items) for key, items in global_infos.items()}
    frame_of(ModuleFrame, "I.module_global_infos").infos.update(infos)
