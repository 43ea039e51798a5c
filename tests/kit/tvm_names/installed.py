"""tunefarm under the name tvm, for a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tunefarm import as_tvm


@contextmanager
def tvm_installed() -> Iterator[None]:
    """Imports of tvm find tunefarm, and afterwards no module of that name is left."""
    before = set(sys.modules)
    as_tvm.install()
    try:
        yield
    finally:
        as_tvm.uninstall()
        for name in {*sys.modules} - before:
            if name.partition(".")[0] == "tvm":
                del sys.modules[name]
