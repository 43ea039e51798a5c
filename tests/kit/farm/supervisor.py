"""A box's supervisor in a thread of the test, whose leases the test hands out as a tracker would."""

from __future__ import annotations

import contextlib
import threading

import zmq

from rpc_server.box.folders import ServerFolder
from rpc_server.box.supervisor import Supervisor, watch_connections
from rpc_server.machine.processes import ExecutorSettings
from rpc_server.wire.sockets import Liveness, prepare


@contextlib.contextmanager
def own_supervisor(folder, config, leases=None, before=lambda port: None):
    """A supervisor in a thread of this process; `before` is called with its port when it listens but does not run."""
    context = zmq.Context()
    front = context.socket(zmq.ROUTER)
    prepare(front, Liveness())
    monitor = watch_connections(front)
    port = front.bind_to_random_port("tcp://127.0.0.1")
    own = ServerFolder(folder)
    supervisor = Supervisor(front, monitor, own.path, config, ExecutorSettings(), leases)
    before(port)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        yield port
    finally:
        supervisor.stop("the test is over")
        thread.join(60)
        assert not thread.is_alive()
        context.term()
        own.remove()
