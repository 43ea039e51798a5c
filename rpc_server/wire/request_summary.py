"""Summaries of requests: a few words for logs, and the seconds that a trial may take."""

from __future__ import annotations

from rpc_server.errors import ProtocolError
from rpc_server.wire import messages
from rpc_server.wire.codec import Buffer


def describe(body: Buffer) -> str:
    """A request's encoded body in a few words, for crash reports and logs."""
    try:
        request = messages.public_codec.decode_body(body)
    except ProtocolError:
        return "an unreadable request"
    match request:
        case messages.LaneLost():
            return request.call[:256]
        case _:
            return describe_request(request)


def trial_allowance(body: Buffer) -> float:
    """Return the seconds that a trial may take in all.
    They cover waiting for blobs, loading, timing, and its reference's run."""
    try:
        request = messages.public_codec.decode_body(body)
    except ProtocolError:
        return 0.0
    if not isinstance(request, messages.Measure):
        return 0.0
    asked = request.request
    return 3.0 * asked.timeout_s + (asked.reference_timeout_s if asked.reference else 0.0)


def describe_request(request: messages.AnyMessage) -> str:
    match request:
        case messages.Call():
            return f"call of {request.function!r}"
        case messages.TimeFunction():
            return f"time_evaluator of {request.function!r}"
        case messages.UseMachine():
            return f"{request.action.value} of {request.function!r}"
        case messages.TimeMachine():
            return f"time_evaluator of {request.function!r}"
        case messages.Measure():
            return f"measurement of artifact {request.request.artifact[:12]}"
        case messages.LoadModule():
            return f"load of {request.name!r}"
        case messages.AllocateMemory():
            return f"allocation of {request.nbytes} bytes"
        case _:
            return type(request).__name__
