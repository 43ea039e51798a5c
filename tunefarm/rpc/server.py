"""A device server in a child process."""

from rpc_server.box.server import Server
from rpc_server.client.local import with_minrpc

__all__ = ["Server", "with_minrpc"]
