"""Postprocessing of decided schedules."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.spaces.postproc import (
    DisallowDynamicLoop,
    Postproc,
    PyPostproc,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
    RewriteUnboundBlock,
    VerifyGPUCode,
)

create = Postproc.create

__all__ = [
    "DisallowDynamicLoop", "Postproc", "PyPostproc", "RewriteParallelVectorizeUnroll", "RewriteReductionBlock",
    "RewriteUnboundBlock", "VerifyGPUCode", "create",
]  # fmt: skip

refuse_other_names(__name__)
