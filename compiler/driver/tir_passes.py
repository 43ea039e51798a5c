"""The passes over TensorIR functions under TVM's names.

Each call makes a pass to put in a `Sequential`.

Every registered pass is here by its title: `Simplify()`. Those of lowering (`compiler/driver/pipeline.py`) expect what
the passes before them made; `lower` runs them all.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.driver import pipeline as _pipeline  # noqa: F401  (registers the passes of lowering)
from compiler.ir.transform.passes import Pass, module_pass
from compiler.lower.loops import bf16_compute_legalize as _bf16  # noqa: F401  (registers its pass)
from compiler.schedule import default_gpu as _default_gpu  # noqa: F401  (registers its pass)
from compiler.tir import transform as _transform
from compiler.tir.transform import Apply, BindTarget, Filter, PrimFuncPass, prim_func_pass

_constructors = _transform.pass_constructors()

__all__ = ["Apply", "BindTarget", "Filter", "PrimFuncPass", "module_pass", "prim_func_pass", *_constructors]


def __getattr__(name: str) -> Callable[..., Pass]:
    try:
        return _constructors[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(__all__)
