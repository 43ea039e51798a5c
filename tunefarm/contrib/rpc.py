"""Remote devices, under an older path."""

from tunefarm.rpc import LocalSession, RPCSession, Server, TrackerSession, connect, connect_tracker

__all__ = ["LocalSession", "RPCSession", "Server", "TrackerSession", "connect", "connect_tracker"]
