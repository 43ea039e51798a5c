"""A session on this machine without starting a server first.

TVM's other session kinds are refused.
"""

from __future__ import annotations

from typing import Any, NoReturn

from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.packed import PackedFunc
from compiler.runtime.core.registry import get_global_func
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.client.remote import RPCDevice
from rpc_server.client.session import RPCSession
from rpc_server.errors import SessionRefused

_START_S = 60.0


def LocalSession(**options: Any) -> RPCSession:
    """A session on a private server of this process, which ends with the session.

    Kernels run in a process of their own, as on any box, so one that crashes costs the session only. Functions that
    only this process has registered are called here: they are given copies of the session's arrays, which are written
    back. `options` are those of `Server`. Raises ServerStartError.
    """
    server = Server("127.0.0.1", port=0, silent=True, **options)
    try:
        session = open_session("127.0.0.1", server.port, wait_s=_START_S)
    except BaseException:
        server.terminate()
        raise
    session.on_close(server.terminate)
    session.own_function = OwnFunction
    return session


class OwnFunction(PackedFunc):
    """A function registered in this process, called with a session's arrays.
    Raises RegistryError if there is none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._function = get_global_func(name)

    def __call__(self, *args: Any) -> Any:
        places = [at for at, arg in enumerate(args) if isinstance(arg, NDArray) and isinstance(arg.device, RPCDevice)]
        here = list(args)
        for at in places:
            here[at] = array(args[at].numpy())
        result = self._function(*here)
        for at in places:
            args[at].copyfrom(here[at])
        return result


def with_minrpc(*_: Any, **__: Any) -> NoReturn:
    """Refused: TVM's way to link a kernel with a small RPC server into one program. Raises SessionRefused."""
    raise SessionRefused(
        "tunefarm has no minimal RPC server to link kernels with",
        hint="run `tunefarm server` on the box, or use rpc.LocalSession()",
    )
