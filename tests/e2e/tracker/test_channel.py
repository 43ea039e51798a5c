"""A client's line to the tracker: whichever thread has its turn, nothing that is said is lost or comes late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
import zmq

from rpc_server.errors import ConnectError
from rpc_server.wire import tracker_messages as tm
from rpc_server.wire.codec import MessageKind
from tracker.channel import Channel

LIMIT_S = 60.0


@dataclass
class Line:
    """Both ends of a line: the test is the tracker. `taken` has the thread that took in each lease's end."""

    router: zmq.Socket[bytes]
    route: bytes = b""
    taken: dict[str, int] = field(default_factory=dict)
    news: dict[str, threading.Event] = field(default_factory=dict)
    channel: Channel = field(init=False)

    def expect(self, lease: str) -> threading.Event:
        return self.news.setdefault(lease, threading.Event())

    def take(self, message: tm.ToClient) -> None:
        assert isinstance(message, tm.LeaseReleased)
        self.taken[message.lease] = threading.get_ident()
        self.expect(message.lease).set()

    def tell(self, lease: str) -> None:
        self.say(tm.LeaseReleased(lease), MessageKind.NOTE)

    def say(self, message: tm.ToClient, kind: MessageKind, request_id: int = 0) -> None:
        self.router.send_multipart([self.route, *tm.from_tracker.encode(message, kind, request_id=request_id)])

    def hear(self) -> tuple[tm.FromClient, int]:
        """The client's next words, and their number."""
        assert self.router.poll(int(LIMIT_S * 1000))
        self.route, *frames = self.router.recv_multipart()
        message = tm.to_tracker.decode(frames)
        return message.body, message.header.request_id


@pytest.fixture
def line() -> Iterator[Line]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context.socket(zmq.ROUTER) as router, ThreadPoolExecutor(1) as pool:
        router.setsockopt(zmq.LINGER, 0)
        router.setsockopt(zmq.SNDHWM, 0)  # a busy machine takes in 1,000 messages late: none is dropped
        port = router.bind_to_random_port("tcp://127.0.0.1")
        line = Line(router)
        made = pool.submit(Channel, "127.0.0.1", port, line.take, list, tm.ClientBye("me"), LIMIT_S)
        asked, number = line.hear()
        assert isinstance(asked, tm.Query)
        line.say(tm.EventPage((), 0, False), MessageKind.REPLY, number)
        line.channel = made.result(LIMIT_S)
        try:
            yield line
        finally:
            line.channel.close()
    context.term()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_who_waits_takes_in_what_comes(line: Line) -> None:
    for number in range(100):  # the thread may look just then, on a beat
        lease = f"lease-{number}"
        teller = in_thread(lambda lease=lease: (until(line.channel._waiter_lock.locked), line.tell(lease)))
        assert line.channel.await_news(line.expect(lease), LIMIT_S)
        teller.join(LIMIT_S)
        if line.taken[lease] == threading.get_ident():
            return
    pytest.fail("the thread took in everything")


def test_without_anybody_who_waits_the_thread_does(line: Line) -> None:
    line.tell("a")
    assert line.expect("a").wait(LIMIT_S)
    assert line.taken["a"] == line.channel._thread.ident


def test_two_wait_at_once(line: Line) -> None:
    heard: list[bool] = []
    waiting = [
        in_thread(lambda lease=lease: heard.append(line.channel.await_news(line.expect(lease), LIMIT_S)))
        for lease in ("a", "b")
    ]
    until(line.channel._waiter_lock.locked)
    line.tell("b")
    line.tell("a")
    for thread in waiting:
        thread.join(LIMIT_S)
    assert heard == [True, True]


def test_who_waits_hears_of_what_another_took_in(line: Line) -> None:
    over = threading.Event()

    def meddle() -> None:
        while not over.is_set():
            line.channel._take_turn(wait=False)

    meddler = in_thread(meddle)
    for number in range(100):
        news = line.expect(f"lease-{number}")
        teller = in_thread(lambda number=number: line.tell(f"lease-{number}"))
        assert line.channel.await_news(news, LIMIT_S)
        teller.join(LIMIT_S)
    over.set()
    meddler.join(LIMIT_S)


def test_what_is_posted_in_another_turn_is_said_after_it(line: Line) -> None:
    with line.channel._turn_lock:
        for number in range(3):
            line.channel.post(tm.CancelRequest("me", f"r{number}"))
    assert [line.hear()[0] for _ in range(3)] == [tm.CancelRequest("me", f"r{number}") for number in range(3)]


def test_more_than_a_turn_takes_in(line: Line) -> None:
    with line.channel._turn_lock:
        for number in range(1000):
            line.tell(f"lease-{number}")
    assert line.expect("lease-999").wait(LIMIT_S)
    assert len(line.taken) == 1000


def test_a_question_is_answered_while_another_waits(line: Line) -> None:
    waiter = in_thread(lambda: line.channel.await_news(line.expect("a"), LIMIT_S))
    until(line.channel._waiter_lock.locked)
    answers: list[tm.ToClient] = []
    asker = in_thread(lambda: answers.append(line.channel.ask(tm.Query("queue"), LIMIT_S)))
    question, number = line.hear()
    assert question == tm.Query("queue")
    line.say(tm.EventPage((), 7, False), MessageKind.REPLY, number)
    asker.join(LIMIT_S)
    assert answers == [tm.EventPage((), 7, False)]
    line.tell("a")
    waiter.join(LIMIT_S)
    assert not waiter.is_alive()


def test_a_closed_line_lets_nobody_wait_on_it(line: Line) -> None:
    waiter = in_thread(lambda: line.channel.await_news(line.expect("never"), 10 * LIMIT_S))
    until(line.channel._waiter_lock.locked)
    line.channel.close()
    waiter.join(LIMIT_S)
    assert not waiter.is_alive()
    assert line.hear()[0] == tm.ClientBye("me")
    line.channel.post(tm.CancelRequest("me", "r"))
    assert not line.channel.await_news(line.expect("never"), 0.0)
    with pytest.raises(ConnectError, match="closed"):
        line.channel.ask(tm.Query("queue"), LIMIT_S)
