"""A device server of this process's own, on this machine.

Importing it costs little, because a program that starts one has not done much else yet.
"""

from __future__ import annotations

import socket

from rpc_server.box.server_options import ServerOptions
from rpc_server.service import ChildService

LOCALHOST = "127.0.0.1"
CPU_KEY = "cpu"
_NO_SPARE_S = 86_400.0


class PrivateServer(ChildService):
    """Lends this machine's CPU, or the GPU named, on loopback.

    It ends with `terminate()`, or with this process. It starts while this process does other things. The first look
    at `port` waits for it, and raises ServerStartError if it did not come to listen.
    """

    def __init__(self, gpu: str = "") -> None:
        # the one session takes the executor that is warm; starting a spare would take a core from what is timed
        options = ServerOptions(
            host=LOCALHOST,
            key="gpu" if gpu else CPU_KEY,
            name=f"{socket.gethostname()}/local",
            port=0,
            gpu=gpu,
            spare_delay_s=_NO_SPARE_S,
        )
        super().__init__("rpc_server.box.server", options, silent=True, wait=False)
