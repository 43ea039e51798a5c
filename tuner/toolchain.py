"""Versions of the programs that turn a trace into machine code.

Part of the key within which times compare.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def toolchain() -> dict[str, str]:
    """The versions that decide what code a trace becomes."""
    import llvmlite.binding as llvm

    try:
        ours = version("tunefarm")
    except PackageNotFoundError:
        ours = "0+unknown"
    return {"tunefarm": ours, "llvm": ".".join(map(str, llvm.llvm_version_info))}
