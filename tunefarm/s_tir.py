"""The name of `tunefarm.tir`'s blocks and schedules in newer versions of Apache TVM."""

import importlib
from typing import Any

from tunefarm import tir as _tir

_ELSEWHERE = {"dlight": "tunefarm.dlight", "meta_schedule": "tunefarm.meta_schedule"}

_RENAMED = {"SBlock": "Block", "SBlockRealize": "BlockRealize", "SBlockRV": "BlockRV"} | {
    "SBlockDependenceInfo": "BlockDependenceInfo",
    "SBlockScope": "BlockScope",
}


def __getattr__(name: str) -> Any:
    if name == "renew_defs":
        return _tir.stmt_functor.renew_defs
    if name in _ELSEWHERE:
        return importlib.import_module(_ELSEWHERE[name])
    return getattr(_tir, _RENAMED.get(name, name))


def __dir__() -> list[str]:
    return sorted({*dir(_tir), *_RENAMED, *_ELSEWHERE})
