"""Waking a loop."""

from __future__ import annotations

import os
import select
import signal

from rpc_server.wire.waker import Waker
from tests.kit.threads import in_threads


def test_a_loop_wakes_once_for_many_calls() -> None:
    waker = Waker()
    watch = select.epoll()
    watch.register(waker.fd, select.EPOLLIN)
    assert watch.poll(0) == []
    waker.clear()  # nobody has woken it: harmless
    in_threads(lambda _: waker.wake(), range(8))
    assert watch.poll(1) == [(waker.fd, select.EPOLLIN)]
    waker.clear()
    assert watch.poll(0) == []
    watch.close()


def test_a_signal_handler_may_wake() -> None:
    waker = Waker()
    before = signal.signal(signal.SIGUSR1, lambda *_: waker.wake())
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        poll = select.poll()
        poll.register(waker.fd, select.POLLIN)
        assert poll.poll(1000)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_descriptor_goes_with_the_object() -> None:
    waker = Waker()
    fd = waker.fd
    last = waker.wake
    del waker
    last()  # whoever may wake keeps it
    os.fstat(fd)
    del last
    try:
        os.fstat(fd)
    except OSError:
        return
    raise AssertionError("the descriptor is still open")
