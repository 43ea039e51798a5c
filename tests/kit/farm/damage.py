"""Damage to recorded messages, and what must hold of a process that gets them: used by the fuzz tests."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading

import numpy as np
import zmq

from compiler.runtime.core import ndarray as nd
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tests.kit.farm import rpc_models
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.fuzzing import cases
from tests.kit.process_tree import resident

CASES = cases(450)
SEED = int(os.environ.get("FUZZ_SEED", "20240"))
PER_CONNECTION = 25
GROWTH = 48 << 20
"""Bytes of resident memory a fuzzed process may grow by: what ZeroMQ and malloc keep, whatever the number of cases."""
_BOUNDARY = (0, 1, 0x7F, 0x80, 0xFF)


# --- damage ------------------------------------------------------------------------------------------------


def damaged(rng: random.Random, sample: list[bytes]) -> list[bytes]:
    """A message like `sample` with something wrong with it, or, one in ten, nothing."""
    frames = [bytearray(frame) for frame in sample]
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 5, 9))):
        at = rng.randrange(len(frames))
        frame = frames[at]
        match rng.randrange(9):
            case 0 if frame:
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
            case 1 if frame:
                frame[rng.randrange(len(frame))] = rng.choice(_BOUNDARY)
            case 2:
                del frame[rng.randrange(len(frame) + 1) :]
            case 3:
                place = rng.randrange(len(frame) + 1)
                frame[place:place] = rng.randbytes(rng.randrange(1, 64))
            case 4:
                frames[at] = bytearray(rng.randbytes(rng.randrange(300)))
            case 5 if len(frames) > 1:
                del frames[at]
            case 6:
                frames.insert(at, bytearray(frame))
            case 7:
                other = rng.choice(frames)
                frame[rng.randrange(len(frame) + 1) :] = other[rng.randrange(len(other) + 1) :]
            case _ if len(frame) >= 8:
                struct.pack_into("<I", frame, rng.randrange(len(frame) - 3), rng.choice((0, 1, 2**31, 2**32 - 1)))
            case _:
                pass
    return [bytes(frame) for frame in frames]


def throw(port: int, samples: list[list[bytes]], rng: random.Random, cases: int) -> None:
    """Send `cases` damaged messages over many connections, and now and then bytes that are not even ZeroMQ's."""
    context = zmq.Context()
    try:
        for start in range(0, cases, PER_CONNECTION):
            with context.socket(zmq.DEALER) as sock:
                sock.setsockopt(zmq.LINGER, 500)
                sock.setsockopt(zmq.SNDTIMEO, 2000)
                sock.connect(f"tcp://127.0.0.1:{port}")
                for _ in range(min(PER_CONNECTION, cases - start)):
                    with contextlib.suppress(zmq.Again):
                        sock.send_multipart(damaged(rng, rng.choice(samples)))
                while sock.poll(5):
                    sock.recv_multipart()
            if rng.random() < 0.2:
                with socket.create_connection(("127.0.0.1", port)) as plain, contextlib.suppress(OSError):
                    greeting = rng.choice((b"", b"\xff" + bytes(8) + b"\x01\x7f"))
                    plain.sendall(greeting + rng.randbytes(rng.randrange(5000)))
    finally:
        context.destroy(linger=500)


# --- what must hold ----------------------------------------------------------------------------------------


class Honest:
    """Works in a thread of its own all the while; `check` says how that went."""

    def __init__(self, work) -> None:
        self.rounds = 0
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join(60)

    def _run(self, work):
        try:
            while not self._done.is_set():
                work()
                self.rounds += 1
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        assert not self._thread.is_alive(), f"the honest client hangs after {self.rounds} rounds (seed {SEED})"
        assert self._error is None, f"after {self.rounds} rounds (seed {SEED}): {self._error!r}"
        assert self.rounds > 0


def unharmed(pid: int, port: int, samples: list[list[bytes]], work, newcomer) -> None:
    """Throw everything at it twice: once so that its buffers grow to their size, once more to see that they stay."""
    rng = random.Random(SEED)
    throw(port, samples, rng, CASES // 3)
    newcomer()
    before = resident(pid)
    with Honest(work) as honest:
        throw(port, samples, rng, CASES)
    honest.check()
    newcomer()
    assert resident(pid) - before < GROWTH, f"it grew by {(resident(pid) - before) >> 20} MiB (seed {SEED})"


def recorded(monkeypatch, owner, name, frames_of):
    """Collect the calls of the function `name` of `owner` while the test goes on."""
    kept: list[list[bytes]] = []
    through = getattr(owner, name)

    def record(*args, **kwargs):
        kept.append([bytes(frame) for frame in frames_of(*args)])
        return through(*args, **kwargs)

    monkeypatch.setattr(owner, name, record)
    return kept


def use(session) -> None:
    """Something of everything that a client asks a box."""
    session.upload(kernel("add_one", 64).to_bytes(), "k.tunefarm")
    function = session.load_module("k.tunefarm")["kernel"]
    a = nd.array(np.zeros(64, np.float32), session.cpu())
    function(a, a)
    np.testing.assert_array_equal(a.numpy(), 1.0)
    assert session.download("k.tunefarm") == kernel("add_one", 64).to_bytes()
    session.remove("k.tunefarm")
    session.status()


def use_more(session) -> None:
    use(session)
    artifact = kernel("add_one", 64)
    assert session.measure(MeasureRequest(artifact.digest, options=EvaluatorOptions(number=1)), [artifact]).ok
    rpc_models.run(session)
