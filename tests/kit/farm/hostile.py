"""State machines of hostile peers: messages at random, counted, and the first failure kept.

Steps are messages. FUZZ_STEPS sets how many there are in all (`make fuzz`: a million); a few thousand otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from typing import ClassVar

import zmq
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from rpc_server.wire.codec import MessageKind

STEPS = int(os.environ.get("FUZZ_STEPS", "0"))
BURST = 25
"""Messages of one step of hypothesis, which thinks longer about it than they take."""
_SAY_S = 60
ROUND = 20
"""Steps of hypothesis for one example."""
seeds = st.integers(0, 2**32 - 1)


class Hostile(RuleBasedStateMachine):
    """Counts what it has `sent`. Services remember, so that an example does not fail twice in the same way, of which
    hypothesis says no more than that it is flaky. So the first failure of a `kept` step is what `fuzz` raises."""

    sent = 0
    failed: ClassVar[list[BaseException]] = []


def kept(step):
    """A rule or an invariant of a `Hostile` whose failure is kept."""

    @functools.wraps(step)
    def kept_step(self, *args, **kwargs):
        try:
            return step(self, *args, **kwargs)
        except Exception as error:
            self.failed.append(error)
            raise

    return kept_step


def fuzz(machine, share, usual, capsys, examples=6):
    """Run a machine for its share of all steps; `usual` without FUZZ_STEPS, in `examples` at least."""
    steps = int(STEPS * share) or usual
    machine.failed = []
    before, started = machine.sent, time.monotonic()
    said = started
    while machine.sent < before + steps:
        left = before + steps - machine.sent
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=max(examples, min(50, left // (BURST * ROUND))),  # the first ones do next to nothing
                    stateful_step_count=ROUND,
                    deadline=None,
                    derandomize=not STEPS,
                    database=None,
                    phases=(Phase.generate,),  # what is tried again is not the same
                    suppress_health_check=list(HealthCheck),
                ),
            )
        except BaseException:
            if machine.failed:
                raise machine.failed[0] from None
            raise
        if not STEPS:  # the same each time
            break
        if time.monotonic() > said + _SAY_S:
            said = time.monotonic()
            _say(machine, machine.sent - before, steps, said - started)
    took, sent = time.monotonic() - started, machine.sent - before
    with capsys.disabled():
        _say(machine, sent, steps, took)


def _say(machine, sent, steps, took):
    """To standard error, which the workers of a parallel run share with it."""
    os.write(2, f"\n{machine.__name__}: {sent:,} of {steps:,} steps, {sent / took:.0f} a second\n".encode())


def encoded(codec, body, kind=MessageKind.REQUEST, **header):
    return [bytes(frame) for frame in codec.encode(body, kind, **header)]


def dealer(context, port):
    sock = context.socket(zmq.DEALER)
    sock.setsockopt(zmq.LINGER, 0)
    sock.setsockopt(zmq.SNDTIMEO, 5000)
    sock.connect(f"tcp://127.0.0.1:{port}")
    return sock


def answers(sock, wait_ms=0):
    with contextlib.suppress(zmq.ZMQError):
        while sock.poll(wait_ms):
            yield sock.recv_multipart()
