"""Functions and modules written with frames.

`with IRBuilder() as ib, T.prim_func(): …`, then `ib.get()`.
"""

from tunefarm.script.ir_builder import ir, tir
from tunefarm.script.ir_builder.base import IRBuilder

__all__ = ["IRBuilder", "ir", "tir"]
