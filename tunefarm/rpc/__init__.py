"""Remote devices: servers, trackers, sessions.

`connect` and `connect_tracker` use this machine's keys (the setting `keys`) where they know the other end's.
"""

from rpc_server.box.server import Server
from rpc_server.client.local import LocalSession, with_minrpc
from rpc_server.client.session import RPCSession
from rpc_server.relay.server import Relay
from rpc_server.wire.keys import KeyRing
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest, MeasureResult
from tracker.client import TrackerSession
from tracker.server import Tracker
from tunefarm.compatibility import refuse_other_names
from tunefarm.rpc import client, proxy, server, tracker
from tunefarm.rpc.client import connect, connect_tracker

__all__ = [
    "EvaluatorOptions", "FailureKind", "KeyRing", "LocalSession", "MeasureRequest", "MeasureResult", "RPCSession",
    "Relay", "Server", "Tracker", "TrackerSession", "client", "connect", "connect_tracker", "proxy", "server",
    "tracker", "with_minrpc",
]  # fmt: skip

refuse_other_names(__name__)
