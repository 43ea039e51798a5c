"""A client of a farm in which things die: `python -m tests.kit.farm.fault_worker PORT NAME JOURNAL SEED`.

It requests devices and uses them until SIGTERM. Whatever a box acknowledged must be there when it is read back. Losing
a device or the tracker is part of the day; anything else ends the worker with the traceback in its journal. Each line
of the journal is `number word ...`, numbered without gaps from where an earlier worker of that journal stopped.
"""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from compiler.runtime.core import ndarray as nd
from rpc_server.client.session import RPCSession
from rpc_server.errors import ConnectError, RPCError
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest
from tests.kit.farm import rpc_models
from tests.kit.farm.rpc_kernels import kernel
from tracker.client import TrackerSession, connect_tracker
from tracker.errors import TrackerError

N = 512
PAUSE_S = 0.05
"""At most, between uses: faults have to strike devices that are held, not a machine at the end of its strength."""
QUICK = EvaluatorOptions(number=2, repeat=2)
BAD = {"segfault": FailureKind.CRASH, "exit": FailureKind.CRASH, "forever": FailureKind.RUN_TIMEOUT}


class Journal:
    def __init__(self, path: Path) -> None:
        text = path.read_text() if path.exists() else ""
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        path.write_text("".join(whole))
        self._next = len(whole)
        self._file = path.open("a", buffering=1)

    def say(self, *words: object) -> None:
        self._file.write(" ".join([str(self._next), *map(str, words)]) + "\n")
        self._next += 1


class Stop(BaseException):
    """Asked to end. Raised wherever the worker is, which may be where Python can only report it (a finalizer, a
    callback from C): `asked` is looked at before every further lease."""

    asked = False


def work(remote: RPCSession, rng: random.Random, journal: Journal) -> None:
    remote.call_timeout = 20.0 if rng.random() < 0.3 else None  # some go through the supervisor, some on the lane
    remote.upload(kernel("add_one", N).to_bytes(), "add_one.tunefarm")
    function = remote.load_module("add_one.tunefarm")["kernel"]
    array = nd.array(np.zeros(N, np.float32), remote.cpu())
    expected = 0
    for _ in range(rng.randrange(2, 30)):
        match rng.randrange(8):
            case 0:
                content = rng.randbytes(rng.randrange(1, 200_000))
                remote.upload(content, "file")
                assert remote.download("file") == content, "an acknowledged upload is lost"
            case 1:
                expected = rng.randrange(1000)
                array.copyfrom(np.full(N, expected, np.float32))
            case 2:
                function(array, array)
                expected += 1
            case 3:
                for call in [function.submit(array, array) for _ in range(rng.randrange(1, 100))]:
                    call.result()
                    expected += 1
            case 4:
                artifact = kernel("add_one", N)
                result = remote.measure(MeasureRequest(artifact.digest, options=QUICK, timeout_s=20.0), [artifact])
                assert result.ok or result.failure in FailureKind, result
            case 5:
                whole = rpc_models.model().measurable()
                result = remote.measure(MeasureRequest(whole.digest, options=QUICK, timeout_s=20.0), [whole])
                assert result.ok or result.failure in FailureKind, result
            case 6:
                rpc_models.run(remote, rng.randrange(1000))
            case _:
                time.sleep(rng.random() * 0.2)
        np.testing.assert_array_equal(array.numpy(), np.float32(expected), "an acknowledged call is lost")
        journal.say("ack", remote.box)
        time.sleep(rng.random() * PAUSE_S)
    if rng.random() < 0.3:
        kind = rng.choice(sorted(BAD))
        artifact = kernel(kind)
        result = remote.measure(MeasureRequest(artifact.digest, options=QUICK, timeout_s=1.5), [artifact])
        # A box that was stopped meanwhile ran out of time whatever it ran.
        assert result.failure in (BAD[kind], FailureKind.CRASH, FailureKind.UPLOAD, FailureKind.RUN_TIMEOUT), result
        journal.say("bad", kind)


def run(tracker: TrackerSession, rng: random.Random, journal: Journal) -> None:
    while not Stop.asked:
        remote = tracker.request("cpu", wait_s=20.0)
        try:
            work(remote, rng, journal)
        finally:
            remote.close()


def main(port: int, name: str, path: str, seed: int) -> int:
    journal = Journal(Path(path))
    rng = random.Random(seed)

    def stop(*_: object) -> None:
        Stop.asked = True
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    try:
        while not Stop.asked:
            try:
                with connect_tracker("127.0.0.1", port, user=name) as tracker:
                    run(tracker, rng, journal)
            except (RPCError, TrackerError, ConnectError) as error:
                journal.say("lost", type(error).__name__, " ".join(error.message.split())[:200])
                time.sleep(0.2)
        return 0
    except Stop:
        return 0
    except BaseException:
        journal.say("VIOLATION", traceback.format_exc().replace("\n", " | "))
        return 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
