"""Remote devices: servers, trackers, sessions."""

from rpc_server.client import RPCSession, connect
from rpc_server.server import Server
from tracker.client import TrackerSession, connect_tracker
from tracker.server import Tracker

__all__ = ["RPCSession", "Server", "Tracker", "TrackerSession", "connect", "connect_tracker"]
