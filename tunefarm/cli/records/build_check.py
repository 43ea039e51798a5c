"""The check of a build on a device: run a kernel, compare it with another one, and time it."""

from __future__ import annotations

from compiler.artifact import Artifact
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest, MeasureResult
from tuner.devices.fleet import DeviceSession
from tuner.untuned import device_type

_CHECK = EvaluatorOptions(number=1, repeat=5, min_repeat_ms=20)


def checked(session: DeviceSession, artifact: Artifact, reference: Artifact) -> MeasureResult:
    """Run a kernel on data from a seed, compare with what the reference gives, and time it."""
    request = MeasureRequest(
        artifact=artifact.digest,
        reference=reference.digest,
        options=_CHECK,
        timeout_s=60.0,
        device_type=device_type(artifact),
    )
    return session.measure(request, (artifact, reference))
