"""A hostile user of the web app: bodies, connections and streams without end, guesses, and forged addresses."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import httpx
import pytest

from tests.kit.records.seed import seed
from tuner.records.farm.model_farm import Role
from tuner.records.store import RecordStore
from webui.access import MOST_FAILURES
from webui.errors import TooManyStreams
from webui.serving import guard
from webui.serving.limits import STREAMS_OF_ONE, Streams, bounded_protocol
from webui.serving.server import WebOptions, serve_app


class Served:
    def __init__(self, address, tokens, run):
        self.address, self.tokens, self.run = address, tokens, run
        self.host, self.port = "127.0.0.1", int(address.rpartition(":")[2])

    def headers(self, role, **more):
        return {"Authorization": f"Bearer {self.tokens[role]}", **more}

    def get(self, path="/api/v1/runs", **headers):
        return httpx.get(f"{self.address}{path}", headers=headers, timeout=60)


@contextlib.contextmanager
def served(folder, **more):
    """The app as `tunefarm web` serves it, in a thread."""
    db = folder / "web.db"
    answers = threading.Event()
    told, servers = [], []

    def announce(line):
        told.append(line)
        answers.set()

    def run(server, listener):
        servers.append(server)
        server.run(sockets=[listener])

    with RecordStore.open(db, create=True) as store, pytest.MonkeyPatch.context() as patch:
        running = seed(store).running
        tokens = {role: store.tokens.new(str(role), role)[1] for role in Role}
        patch.setattr("webui.serving.server._run", run)
        options = WebOptions(db=str(db), port=0, require_token=True, **more)
        thread = threading.Thread(target=serve_app, args=(store, None, options, announce))
        thread.start()
        assert answers.wait(60)
        try:
            yield Served(told[0].removeprefix("listening on "), tokens, running)
        finally:
            servers[0].should_exit = True
            thread.join(60)


@pytest.fixture
def web(tmp_path):
    with served(tmp_path) as app:
        yield app


def upload(web, role, size, path="/api/v1/releases/import", announce=True):
    """Send a body as long as it is taken: (bytes sent, what was answered)."""
    length = f"Content-Length: {size}" if announce else "Transfer-Encoding: chunked"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {web.tokens[role]}\r\n{length}\r\n\r\n"
    )
    chunk = b" " * 65536
    piece = chunk if announce else b"10000\r\n" + chunk + b"\r\n"
    sent, answer = 0, b""
    with socket.create_connection((web.host, web.port), timeout=60) as sock:
        sock.sendall(head.encode())
        with contextlib.suppress(OSError):
            while sent < size:
                sock.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    answer += sock.recv(4096)
                if answer:
                    break
                sock.settimeout(60)
                sock.sendall(piece)
                sent += len(chunk)
        with contextlib.suppress(OSError):
            while part := sock.recv(4096):
                answer += part
    return sent, answer


@pytest.mark.parametrize("announce", [True, False])
def test_a_body_is_not_taken_from_who_may_not_send_it(web, announce):
    sent, answer = upload(web, Role.READ, 300 << 20, announce=announce)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"connection: close" in answer
    assert sent < 4 << 20


@pytest.mark.parametrize("announce", [True, False])
def test_a_body_has_the_size_that_its_role_may_send(web, announce):
    most = guard.MOST_BYTES[Role.READ]
    sent, answer = upload(web, Role.READ, 10 * most, "/api/v1/best/batch", announce=announce)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert sent < 2 * most
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"].startswith("the request is larger")


def test_a_body_that_does_not_come_is_not_waited_for(web, monkeypatch):
    monkeypatch.setattr(guard, "BODY_S", 0.5)
    head = f"POST /api/v1/best/batch HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nContent-Length: 100\r\n"
    with socket.create_connection((web.host, web.port), timeout=60) as sock:
        sock.sendall(f"{head}Authorization: Bearer {web.tokens[Role.READ]}\r\n\r\n{{".encode())
        assert_closes(sock)


def assert_closes(sock):
    """Within the socket's own time."""
    with contextlib.suppress(ConnectionError):
        while sock.recv(4096):
            pass


def test_half_a_request_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr("webui.serving.server.bounded_protocol", lambda *more: bounded_protocol(*more, request_s=0.5))
    with served(tmp_path) as web:
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "):
            with socket.create_connection((web.host, web.port), timeout=60) as sock:
                sock.sendall(begun)
                assert_closes(sock)
        with socket.create_connection((web.host, web.port), timeout=60) as sock:  # after a whole one
            whole = f"GET /static/x HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\n\r\n"
            sock.sendall(whole.encode())
            assert sock.recv(4096).startswith(b"HTTP/1.1 401")
            sock.sendall(b"GET / HT")
            assert_closes(sock)


def test_connections_of_one_address_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("webui.serving.server.bounded_protocol", lambda *more: bounded_protocol(*more, most_of_one=10))
    with served(tmp_path) as web, contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection((web.host, web.port), timeout=60)) for _ in range(10)]
        with socket.create_connection((web.host, web.port), timeout=60) as sock:
            assert_closes(sock)
        held[0].close()
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if web.get(**web.headers(Role.READ)).status_code == 200:
                    break
            assert time.monotonic() < end


def test_live_streams_of_one_client_are_counted(web):
    """And are free again when their client has gone."""
    with httpx.Client(base_url=web.address, headers=web.headers(Role.READ), timeout=60) as client:
        for _ in range(2):
            with contextlib.ExitStack() as stack:
                path = f"/api/v1/runs/{web.run}/events"
                end = time.monotonic() + 60
                opened = 0
                while opened < STREAMS_OF_ONE:  # those of the turn before end in a moment
                    reply = stack.enter_context(client.stream("GET", path))
                    opened += reply.status_code == 200
                    assert time.monotonic() < end
                with client.stream("GET", path) as reply:
                    assert reply.status_code == 429
                other = web.get("/api/v1/runs", **web.headers(Role.ADMIN))
                assert other.status_code == 200


def test_streams_of_all_together():
    streams = Streams(most=3, most_of_one=2)
    ends = [streams.open("a"), streams.open("a"), streams.open("b")]
    with pytest.raises(TooManyStreams, match="there are"):
        streams.open("c")
    ends.pop()()
    streams.open("c")
    ends.pop()()
    with pytest.raises(TooManyStreams):
        streams.open("a") and streams.open("a")


def test_wrong_tokens_do_not_lock_out_the_right_one(web):
    wrong = {"Authorization": "Bearer guess"}
    assert {web.get(**wrong).status_code for _ in range(MOST_FAILURES + 2)} == {401, 429}
    assert web.get(**web.headers(Role.READ)).status_code == 200
    assert web.get(**wrong).status_code == 429


def test_forged_addresses_do_not_help_guessing(web):
    replies = [web.get(Authorization=f"Bearer {n}", **{"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(12)]
    assert [reply.status_code for reply in replies] == [401] * MOST_FAILURES + [429] * 2


def test_a_proxy_that_is_named_is_believed(tmp_path):
    with served(tmp_path, proxies=("127.0.0.1",)) as web:
        replies = [web.get(Authorization="Bearer guess", **{"X-Forwarded-For": "192.0.2.1"}) for _ in range(11)]
        assert replies[-1].status_code == 429
        assert web.get(Authorization="Bearer guess", **{"X-Forwarded-For": "192.0.2.2"}).status_code == 401
