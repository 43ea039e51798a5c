"""Remote devices: servers, trackers, sessions."""

from rpc_server.client import RPCSession, connect
from rpc_server.measure import EvaluatorOptions, FailureKind, MeasureRequest, MeasureResult
from rpc_server.server import Server
from tracker.client import TrackerSession, connect_tracker
from tracker.server import Tracker

__all__ = [
    "EvaluatorOptions",
    "FailureKind",
    "MeasureRequest",
    "MeasureResult",
    "RPCSession",
    "Server",
    "Tracker",
    "TrackerSession",
    "connect",
    "connect_tracker",
]  # fmt: skip
