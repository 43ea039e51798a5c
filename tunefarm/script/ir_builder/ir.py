"""Frames of modules: `with I.ir_module():` around functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.ir.base import GlobalVar
from compiler.ir.function import BaseFunc
from compiler.ir.module import IRModule
from compiler.script.common import vdevice
from tunefarm.compatibility import refuse_other_names
from tunefarm.script.ir_builder.base import Frame, IRBuilder, frame_of

__all__ = [
    "IRModuleFrame", "decl_function", "def_function", "ir_module", "module_attrs", "module_get_attr",
    "module_global_infos", "module_set_attr", "vdevice",
]  # fmt: skip

refuse_other_names(__name__)


class ModuleFrame(Frame):
    """The functions made inside are a module's."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[GlobalVar, BaseFunc] = {}
        self._names: dict[str, GlobalVar] = {}
        self.attrs: dict[str, Any] = {}
        self.infos: dict[str, list[Any]] = {}

    def declare(self, name: str, func: BaseFunc) -> GlobalVar:
        """Return the name by which calls mean a function, which is `func` until it is declared again."""
        var = self._names.setdefault(name, GlobalVar(name))
        self.functions[var] = func
        return var

    def close(self, builder: IRBuilder) -> None:
        builder.finish(IRModule(self.functions, self.attrs, self.infos))


IRModuleFrame = ModuleFrame


def decl_function(func_name: str, func_signature: BaseFunc) -> GlobalVar:
    """Return the name of a function of the module, for calls before it is defined.
    Until then the module has `func_signature` in its place."""
    return frame_of(ModuleFrame, "I.decl_function").declare(func_name, func_signature)


def def_function(func_name: str, func: BaseFunc) -> None:
    """Give the module a function, also one that was declared."""
    frame_of(ModuleFrame, "I.def_function").declare(func_name, func)


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
