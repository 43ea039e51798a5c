"""The axes that a config space is defined over: only their lengths count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.tir.nodes import IterVar
from compiler.tir.ops import as_int
from tuner.faces.autotvm.errors import ConfigError


class VirtualAxis:
    """An axis by its length. Made of a te axis, a length, or another virtual axis.

    Raises ConfigError for an axis without a constant length.
    """

    def __init__(self, var: Any, name: str | None = None) -> None:
        self.num_output = 1
        self.length: int
        default: str
        match var:
            case VirtualAxis():
                self.length, default = var.length, var.name
            case IterVar():
                length = None if var.dom is None else as_int(var.dom.extent)
                if length is None:
                    raise ConfigError(
                        f"axis {var.var.name!r} has no constant length to define a space over",
                        hint="define the space before the axis is split, or give the length as a number",
                    )
                self.length, default = length, var.var.name
            case bool():
                raise ConfigError(f"an axis is a te axis or a length, got {var!r}")
            case int() if var > 0:
                self.length, default = var, f"axis_{var}"
            case _:
                raise ConfigError(f"an axis is a te axis or a positive length, got {var!r}")
        self.name: str = name or default

    def __repr__(self) -> str:
        return f"vaxis({self.name})"


@dataclass(frozen=True)
class Axis:
    """The `index`-th loop of a transformation of a space; `space` is None once a config is chosen."""

    space: Any
    index: int
