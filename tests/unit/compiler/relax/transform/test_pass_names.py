"""Names and parameters of passes, against those of Apache TVM (`tests/data/relax_passes.json`); what each pass has.

Every name is there, or stands below with the reason.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from tests.kit.places import TESTS
from tunefarm.relax import transform

FIELD: dict[str, dict[str, list[str]]] = json.loads((TESTS / "data" / "relax_passes.json").read_text())
_IPC = "it is about memory that processes on NVIDIA GPUs share: no library here reduces through it"
MISSING = {
    "ComputePrimValue": "VMShapeLower computes scalars of dimensions where they are used",
    "IPCAllReduceRewrite": _IPC,
    "LowerGPUIPCAllocStorage": _IPC,
    "RewriteCUDAGraph": "the machine starts a GPU's kernels one by one; recording them is not part of it",
    "SplitCallTIRByPattern": "operators are matched before kernels are made of them: FuseOpsByPattern",
    "SpecializePrimFuncBasedOnCallSite": "it writes memory scopes of devices into kernels: targets here have none",
}
"""Names that are not there, and why."""
DIFFER = {
    "AttachAttrLayoutFreeBuffers": "takes constants_only besides",
    "FoldConstant": "takes what evaluates kernels besides",
    "FuseOps": "takes how many kernels one may hold besides",
    "ToMixedPrecision": "takes dtype besides, for bfloat16",
}
"""Names whose parameters are not those of the list, and why."""


def ours(name: str) -> Any:
    return getattr(transform, name, None)


def test_every_name_is_there_or_says_why_not() -> None:
    assert {name for name in FIELD if ours(name) is None} == set(MISSING)
    assert all(len(reason) > 10 for reason in (*MISSING.values(), *DIFFER.values()))


@pytest.mark.parametrize("name", sorted(set(FIELD) - set(MISSING)))
def test_parameters(name: str) -> None:
    taken = list(inspect.signature(ours(name)).parameters)
    assert (taken != FIELD[name]["takes"]) == (name in DIFFER), taken
