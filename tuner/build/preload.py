"""Imported once by the process from which build workers are forked (`build.spawning`).

The compiler, ready to build.

A worker has everything imported and set up here from its first moment. Nothing here may start a thread, because a
fork copies none.
"""

from __future__ import annotations

import gc
from contextlib import suppress

from compiler.driver.backend import BACKENDS
from compiler.driver.build import compile_artifact
from compiler.errors import TargetError
from compiler.target.options import find_kind
from compiler.target.target import Target
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from tuner.space.backend import TUNING_BACKENDS


def _build_once() -> None:
    """LLVM and the compiler's tables set themselves up during the first build."""
    a = placeholder((16,), name="a")
    func = create_prim_func([a, compute((16,), lambda i: a[i] + 1.0, name="b")])
    with suppress(Exception):  # it would end this process; each build tells what is wrong by itself
        compile_artifact(func, Target.host(), name="main")


_build_once()
for _kind in TUNING_BACKENDS.kinds:  # what is tuned for may be built for
    with suppress(TargetError):  # a distribution's, told again by the builds that need it
        find_kind(_kind)
        BACKENDS.find(_kind)
gc.collect()
gc.freeze()  # what is shared with the workers is not touched, and so not copied, by their collections
