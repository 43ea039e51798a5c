"""Attach modules of the runtime to the module whose graphs call their functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.transform.codegen.run_codegen import EXTERNAL
from compiler.relax.transform.passes import relax_pass


@relax_pass("AttachExternModules")
def attach_extern_modules(mod: IRModule, context: PassContext, *, extern_modules: Sequence[Any]) -> IRModule:
    """Attach modules of the runtime, whose functions graphs call by name.

    The executable imports them.

    R.call_dps_packed("mine", …)    →    the same; attribute "external_mods": [the module that has "mine"]

    `extern_modules` are runtime modules, or objects whose method `load` gives one.
    """
    loaded = [item.load() if hasattr(item, "load") else item for item in extern_modules]
    for item in loaded:
        if not hasattr(item, "get_function"):
            raise ArgumentError(f"{item!r} ({type(item).__name__}) is no runtime module, and has no method load")
    return mod.with_attr(EXTERNAL, [*mod.attrs.get(EXTERNAL, ()), *loaded])
