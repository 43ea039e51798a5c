"""Several workers that run the same program on parts of its data."""

from compiler.runtime.disco.messages import DiscoError
from compiler.runtime.disco.session import DModule, DPackedFunc, DRef, ProcessSession, Session, ThreadedSession
from rpc_server.client.disco import FarmSession
from tunefarm.compatibility import refuse_other_names

__all__ = [
    "DModule", "DPackedFunc", "DRef", "DiscoError", "FarmSession", "ProcessSession", "Session", "ThreadedSession",
]  # fmt: skip

refuse_other_names(__name__)
