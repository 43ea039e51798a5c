"""Requests to devices for the trials that the engine wants measured. Pure."""

from __future__ import annotations

from functools import lru_cache

from compiler.artifact import Artifact
from rpc_server.wire.trial_messages import MeasureRequest
from tuner.engine.events import SubmitMeasure
from tuner.engine.options import RunOptions
from tuner.records.model import TrialPurpose
from tuner.rounding import Rounding
from tuner.untuned import device_type

_BASELINE_PATIENCE = 6  # untuned code may be that much slower than any candidate may be
_LEAST_FLOPS = 1e8  # a second, of untuned code that waits for memory at every step


def measurement(
    command: SubmitMeasure, rounding: Rounding, options: RunOptions, flops: float = 0.0, weights: tuple[int, ...] = ()
) -> tuple[MeasureRequest, tuple[Artifact, ...]]:
    """The request, and the artifacts it names. Outputs may differ as far as `options` says, or `rounding` where that is
    further. The untuned function, of `flops` operations, has more time than candidates: large ones take minutes. The
    arguments at `weights` are a model's: they are not in the caches when it is called."""
    purpose = command.job.purpose
    candidate = Artifact.from_bytes(command.artifact)
    reference = _reference(command.reference)
    baseline = purpose is TrialPurpose.BASELINE
    untuned_timeout_s = max(_BASELINE_PATIENCE * options.run_timeout_s, flops / _LEAST_FLOPS)
    request = MeasureRequest(
        artifact=candidate.digest,
        seed=options.seed,
        options=options.evaluator(purpose, command.best),
        timeout_s=untuned_timeout_s if baseline else options.run_timeout_s,
        reference=reference.digest,
        reference_timeout_s=untuned_timeout_s,
        rtol=max(options.rtol, rounding.relative),
        atol=max(options.atol, rounding.absolute),
        device_type=device_type(candidate),
        cold=weights,
    )
    return request, (candidate,) if candidate.digest == reference.digest else (candidate, reference)


@lru_cache(maxsize=32)
def _reference(data: bytes) -> Artifact:
    """A task's reference goes along with each of its trials: it is read once."""
    return Artifact.from_bytes(data)
