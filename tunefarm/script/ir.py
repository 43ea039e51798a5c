"""`from tunefarm.script import ir as I`: modules."""

from typing import Any

from compiler.errors import IRError
from compiler.script.entry import ir_module

__all__ = ["ir_module", "module_attrs"]
__script_namespace__ = "ir"


def module_attrs(attrs: dict[str, Any]) -> None:
    """The attributes of the module: read by `ir_module`; outside of one it does nothing."""
    if not isinstance(attrs, dict):
        raise IRError("I.module_attrs takes a dict of attributes")
