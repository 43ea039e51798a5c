"""What newer versions of Apache TVM call the blocks and schedules of `tunefarm.tir`."""

from typing import Any

from tunefarm import tir as _tir

_RENAMED = {"SBlock": "Block", "SBlockRealize": "BlockRealize", "SBlockRV": "BlockRV"} | {
    "SBlockDependenceInfo": "BlockDependenceInfo",
    "SBlockScope": "BlockScope",
}


def __getattr__(name: str) -> Any:
    if name == "renew_defs":
        return _tir.stmt_functor.renew_defs
    return getattr(_tir, _RENAMED.get(name, name))


def __dir__() -> list[str]:
    return sorted({*dir(_tir), *_RENAMED})
