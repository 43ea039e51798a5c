"""Postprocessing of decided schedules."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
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
    "DisallowDynamicLoop",
    "Postproc",
    "PyPostproc",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteUnboundBlock",
    "VerifyGPUCode",
    "create",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
