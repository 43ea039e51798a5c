"""What is done to a schedule once it is decided."""

from tuner.faces.meta_schedule.postproc import (
    DisallowDynamicLoop,
    Postproc,
    PyPostproc,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
)

__all__ = ["DisallowDynamicLoop", "Postproc", "PyPostproc", "RewriteParallelVectorizeUnroll", "RewriteReductionBlock"]
