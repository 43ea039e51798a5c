"""Several workers that run the same program on parts of its data."""

from typing import TYPE_CHECKING

from compiler.runtime.disco.messages import DiscoError
from compiler.runtime.disco.session import DModule, DPackedFunc, DRef, ProcessSession, Session, ThreadedSession
from rpc_server.client.disco import FarmSession
from tunefarm.compatibility import refusing

__all__ = [
    "DModule",
    "DPackedFunc",
    "DRef",
    "DiscoError",
    "FarmSession",
    "ProcessSession",
    "Session",
    "ThreadedSession",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
