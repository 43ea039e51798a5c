"""A box, or a kernel that took over its executor, answers its client with anything: the client hears of a wrong peer.

Whatever comes, each call ends with an error of ours, and what is kept of answers that nobody waits for stays little.
"""

from __future__ import annotations

import contextlib
import random
import threading

import msgspec
import numpy as np
import pytest
import zmq

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from rpc_server.client.connect import box_status, open_session
from rpc_server.errors import ProtocolError
from rpc_server.wire import messages
from rpc_server.wire.codec import MessageKind, check_frames
from rpc_server.wire.machine_messages import FunctionInfo, TupleOf
from rpc_server.wire.trial_messages import MeasureRequest
from tests.kit.farm.hostile import STEPS
from tests.kit.farm.made_up import MadeUp, kinds
from tests.kit.farm.rpc_kernels import kernel
from tunefarm import relax
from tunefarm.runtime import array

OPENED = messages.SessionOpened(1, "false", 2)


class FalseBox:
    """A ROUTER on loopback. `answer(request)` gives the messages and buffers that it says to a request."""

    def __init__(self, answer):
        self.answer = answer
        self._context = zmq.Context()
        self._sock = self._context.socket(zmq.ROUTER)
        self._sock.setsockopt(zmq.LINGER, 0)
        self.port = self._sock.bind_to_random_port("tcp://127.0.0.1")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while not self._done.is_set():
            if not self._sock.poll(20):
                continue
            conn, *frames = self._sock.recv_multipart()
            number = check_frames(frames).request_id
            asked = messages.public_codec.decode(frames).body
            for body, buffers in self.answer(asked):
                said = messages.public_codec.encode(body, MessageKind.REPLY, request_id=number, buffers=buffers)
                self._sock.send_multipart([conn, *said])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join(10)
        self._context.destroy(linger=0)

    def session(self):
        return open_session("127.0.0.1", self.port, wait_s=5, call_timeout=5.0)


def answers(reply, *buffers):
    """Opens sessions; everything else is answered with one message."""
    return lambda asked: [(OPENED, ())] if isinstance(asked, messages.OpenSession) else [(reply, buffers)]


def use_all(session, artifact: Artifact) -> None:
    """Everything that a client does with a session; each must end, with a TunefarmError at worst."""
    request = MeasureRequest(artifact=artifact.digest, timeout_s=1.0)
    there = None
    for step in (
        session.status,
        session.fingerprint,
        lambda: session.download("file"),
        lambda: session.upload(b"abc", "file"),
        lambda: session.get_function("f")(1, "x"),
        lambda: session.measure(request, [artifact]),
        lambda: use_model(session),
        lambda: array(np.arange(5), session.cpu()).numpy(),
    ):
        with contextlib.suppress(TunefarmError, MemoryError):
            there = step()
    del there


def use_model(session):
    machine = relax.VirtualMachine(session.load_module("model"), session.cpu())
    for name in list(machine._params)[:2]:
        found = machine[name](*[1] * len(machine._params[name]))
        for value in found if isinstance(found, tuple) else (found,):
            if hasattr(value, "numpy"):
                value.numpy()
        machine.profile(name, *[1] * len(machine._params[name]))
        machine.time_evaluator(name, session.cpu())(*[1] * len(machine._params[name]))


@pytest.mark.parametrize("seed", range(max(12, STEPS // 5000)))
def test_any_answer_to_anything(seed):
    """Half of the answers are of the kind that is due."""
    rng = random.Random(seed)
    artifact = kernel("add_one")
    make = MadeUp(rng, {"size": [3, 40, 1 << 40], "digests": [["f" * 64]], "lane": [""]}, {"lane": ""})
    due = {
        "open_machine": messages.MachineOpened,
        "use_machine": messages.MachineReturned,
        "load_module": messages.ModuleLoaded,
    }

    def answer(asked):
        if isinstance(asked, messages.OpenSession) and rng.random() < 0.9:
            return [(OPENED, ())]
        said = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            kind = due.get(type(asked).__struct_config__.tag)
            if kind is None or rng.random() < 0.2:
                kind = rng.choice(kinds(rng.choice((messages.AnyReply, messages.AnyMessage))))
            buffers = [b"x" * rng.choice((0, 3, 40)) for _ in range(rng.choice((0, 1, 1, 2)))]
            with contextlib.suppress(msgspec.ValidationError):
                said.append((make.message(kind), buffers))
        return said or [(messages.Done(), ())]

    with FalseBox(answer) as box:
        for _ in range(3):
            with contextlib.suppress(TunefarmError), box.session() as session:
                use_all(session, artifact)
        with contextlib.suppress(TunefarmError):
            box_status("127.0.0.1", box.port)


def test_answers_of_another_kind():
    for wrong in (messages.Done(), messages.Data(5)):
        with FalseBox(answers(wrong)) as box, box.session() as session:
            for ask in (session.status, lambda: session.download("f"), lambda: session.load_module("m")):
                with pytest.raises(ProtocolError, match="answer"):
                    ask()
    with (
        FalseBox(lambda asked: [(messages.Done(), ())]) as box,
        pytest.raises(ProtocolError, match="instead of SessionOpened"),
    ):
        box.session()


def test_blobs_that_the_trial_does_not_name():
    artifact = kernel("add_one")
    with FalseBox(answers(messages.Need(("f" * 64,)))) as box, box.session() as session, pytest.raises(ProtocolError):
        session.measure(MeasureRequest(artifact=artifact.digest, timeout_s=1.0), [artifact])


def test_tuples_nested_without_end():
    def answer(asked):
        match asked:
            case messages.OpenSession():
                return [(OPENED, ())]
            case messages.OpenMachine():
                return [(messages.MachineOpened(1, (FunctionInfo("main"),)), ())]
            case messages.LoadModule():
                return [(messages.ModuleLoaded(1, "", ()), ())]
        return [(nested, ())]

    nested = messages.MachineReturned((*[TupleOf(1)] * 30_000, 1))
    with FalseBox(answer) as box, box.session() as session:
        machine = relax.VirtualMachine(session.load_module("model"), session.cpu())
        with pytest.raises(ProtocolError, match="deep"):
            machine["main"]()


def test_a_file_shorter_than_it_was_said_to_be():
    with FalseBox(answers(messages.Data(1 << 50), b"")) as box, box.session() as session, pytest.raises(ProtocolError):
        session.download("f")


def test_answers_to_what_was_answered_are_not_kept():
    """Each of them could be of 64 MiB."""

    def answer(asked):
        return answers(messages.Done())(asked) * (1 if isinstance(asked, messages.OpenSession) else 3)

    with FalseBox(answer) as box, box.session() as session:
        for _ in range(200):
            with contextlib.suppress(ProtocolError):
                session.get_function("f")
        assert len(session._connection._arrived) < 5
