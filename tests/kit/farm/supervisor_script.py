"""A supervisor's decisions as tests play them: a state, a clock, and events to begin with."""

import signal

from rpc_server.box.executor_pool import PoolConfig
from rpc_server.box.supervisor_events import CallAsked, ExecutorReady, Fail, Log, OpenAsked, Spawn, TimePassed
from rpc_server.box.supervisor_records import SupervisorConfig
from rpc_server.box.supervisor_state import SupervisorState
from rpc_server.machine.crash import ExitReport
from rpc_server.wire.messages import OpenSession

ANN, BOB = b"ann", b"bob"
SEGFAULT = ExitReport(signal=signal.SIGSEGV, stderr="Segmentation fault")
KILLED = ExitReport(signal=signal.SIGKILL)


class Box:
    """A state, a clock, and what the last event led to."""

    def __init__(self, **config):
        pool = PoolConfig(
            **{k: config.pop(k) for k in ("warm", "start_timeout_s", "start_retry_s", "refill_delay_s") if k in config}
        )
        self.state = SupervisorState(
            SupervisorConfig(box="box", pool=pool, **config),
            lambda frames: f"call {frames[1].decode()}",
            lambda _frames: 100.0,
        )
        self.now = 100.0
        self.out = []

    def __call__(self, *events, after=0.0):
        self.now += after
        self.out = [c for e in events for c in self.state.handle(e, self.now) if not isinstance(c, Log)]
        return self.out

    def got(self, kind):
        return [command for command in self.out if isinstance(command, kind)]

    def error(self):
        (fail,) = self.got(Fail)
        return fail.error


def ask(conn=ANN, request_id=1, lease=None, **options):
    options.setdefault("wait_s", 10)
    return OpenAsked(conn, request_id, OpenSession(client=conn.decode(), **options), lease)


def call(request_id, conn=ANN, name=b"f", **options):
    frames = [b"header", name, b"data"]
    return CallAsked(conn, request_id, frames, options.pop("nbytes", 10), **options)


def warm_box():
    """One warm executor, number 1."""
    box = Box()
    assert box(TimePassed()) == [Spawn(1)]
    assert box(ExecutorReady(1, pid=11)) == []
    return box


def with_ann(box):
    """Ann's session 1 on executor 1; executor 2 is warm."""
    box(ask(restart_on_crash=True))
    box(ExecutorReady(2, pid=12))
    return box
