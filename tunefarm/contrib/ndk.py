"""Shared libraries for Android, linked by the compiler that the variable `TVM_NDK_CC` names."""

from __future__ import annotations

import os
from collections.abc import Sequence

from compiler.runtime.files.linker import LinkError
from compiler.runtime.files.linker import create_shared as _link

__all__ = ["create_shared"]


def create_shared(output: str, objects: str | Sequence[str], options: Sequence[str] | None = None) -> None:
    """Link objects into a library. Raises LinkError where `TVM_NDK_CC` is not set, or the linker fails."""
    compiler = os.environ.get("TVM_NDK_CC")
    if not compiler:
        raise LinkError("TVM_NDK_CC is not set", hint="set it to the C++ compiler of an Android toolchain")
    _link(output, objects, options, cc=compiler)
