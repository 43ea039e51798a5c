"""Real messages of hostile peers with valid sessions, in any order: a tracker's client, a box, an executor, a web user.

All the while an honest client has a session and a lease, which must hold.
"""

from __future__ import annotations

import contextlib
import json
import random
from types import SimpleNamespace
from urllib.parse import quote

import httpx
import msgspec
import zmq
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from compiler.errors import TunefarmError
from rpc_server.box import supervisor_events as events
from rpc_server.box.executor_links import ExecutorLinks
from rpc_server.box.server import Server
from rpc_server.machine.blobs import BlobStore
from rpc_server.machine.crash import ExitReport
from rpc_server.machine.processes import ExecutorSettings
from rpc_server.wire import tracker_messages
from rpc_server.wire.codec import Address, MessageKind, check_frames
from rpc_server.wire.messages import AnyMessage, Done, SyncDevice, public_codec
from rpc_server.wire.polling import PollTable
from rpc_server.wire.private_messages import AnyPrivate, private_codec
from rpc_server.wire.tracker_messages import to_tracker
from tests.attack.test_web import served
from tests.kit.farm.hostile import BURST, Hostile, answers, dealer, encoded, fuzz, kept, seeds
from tests.kit.farm.made_up import MadeUp, kinds
from tests.kit.farm.supervisor_script import ANN, BOB, ask, warm_box, with_ann
from tracker.client import connect_tracker
from tracker.farm_parts import Timing
from tracker.server import Tracker
from tuner.records.farm.model_farm import Role
from webui.pages.table import PAGES

# --- a box, and clients of the tracker ---------------------------------------------------------------------


class Peers(Hostile):
    """A box of its own devices and a client, which speak to a tracker as they like; an honest client holds a lease."""

    port = 0
    tracker: Tracker
    lent = ""
    watcher = None
    honest = None

    def __init__(self):
        super().__init__()
        self.context = zmq.Context()
        self.box, self.client = (dealer(self.context, self.port) for _ in range(2))
        self.leases, self.tokens = ["none"], ["none"]

    @rule(seed=seeds)
    @kept
    def box_says(self, seed):
        self._say(self.box, seed, tracker_messages.FromBox, ["box-evil", "box-evil2"])

    @rule(seed=seeds)
    @kept
    def client_says(self, seed):
        self._say(self.client, seed, tracker_messages.FromClient, ["eve", "eve2"])

    def _say(self, sock, seed, union, peers):
        known = {
            "peer": peers,
            "lease": self.leases,
            "token": self.tokens,
            "request": ["r1", "r2"],
            "expr": ["evil", "cpu", "", "evil & ("],
            "slot": [0, 1],
            "key": ["evil"],
        }
        fixed = {"box": "evil", "target": "evil/0", "address": "192.0.2.1:9091", "user": "eve"}
        make = MadeUp(random.Random(seed), known, fixed)
        for number in range(BURST):
            type(self).sent += 1
            with contextlib.suppress(msgspec.ValidationError, zmq.Again):
                body = make.message(make.rng.choice(kinds(union)))
                asks = isinstance(body, tracker_messages.Query | tracker_messages.Admin)
                wrong = make.rng.random() < 0.05
                kind = MessageKind.REQUEST if asks is not wrong else MessageKind.NOTE
                sock.send_multipart(encoded(to_tracker, body, kind, request_id=number + 1))
        for frames in answers(sock):
            for word in _words(frames):
                self._learn(word)

    def _learn(self, found):
        for name, into in (("lease", self.leases), ("token", self.tokens)):
            if isinstance(found.get(name), str):
                into[1:] = [*into[1:], found[name]][-20:]

    @invariant()
    @kept
    def the_lease_holds(self):
        assert self.tracker.is_alive
        held = {device.id: device.lease for device in self.watcher.devices()}
        assert held["honest/0"] == self.lent
        self.honest.status()

    def teardown(self):
        self.context.destroy(linger=0)


def _words(frames):
    """The maps in a message, at any depth."""
    try:
        rest = [msgspec.msgpack.decode(frames[1])]
    except (msgspec.MsgspecError, IndexError):
        return
    while rest:
        match rest.pop():
            case dict() as found:
                yield found
                rest += found.values()
            case list() as found:
                rest += found


def test_boxes_and_clients_of_a_tracker(capsys):
    with Tracker(port=0, silent=True, timing=Timing(late_s=60.0, box_timeout_s=60.0, grace_s=20.0)) as tracker:
        address = ("127.0.0.1", tracker.port)
        with (
            Server(port=0, silent=True, tracker_addr=address, key="cpu", name="honest"),
            connect_tracker(*address, user="watch", timeout_s=60) as watcher,
            connect_tracker(*address, user="ann", timeout_s=60) as ann,
            ann.request("cpu", wait_s=60) as remote,
        ):
            Peers.tracker, Peers.port, Peers.watcher, Peers.honest = tracker, tracker.port, watcher, remote
            Peers.lent = next(device.lease for device in watcher.devices() if device.id == "honest/0")
            fuzz(Peers, 0.4, 1500, capsys)
            remote.cpu().sync()
        assert tracker.is_alive


# --- an executor -------------------------------------------------------------------------------------------


class Executors(Hostile):
    """A kernel writes to its supervisor in its executor's name. The supervisor's own reader and rules run in this
    process. Ann's executor is honest, and her calls are answered by it alone."""

    folder = None

    def __init__(self):
        super().__init__()
        self.box = with_ann(warm_box())  # ann's is number 1; 2 is warm
        self.box(ask(BOB, restart_on_crash=True), events.ExecutorReady(3, pid=13))
        self.links = ExecutorLinks(
            PollTable(), self.folder, ExecutorSettings(), BlobStore(self.folder / "blobs"), self._emit, lambda _: b""
        )
        self.hostile, self.number, self.last = 2, 100, 3
        self.asked: dict[int, bytes] = {}

    def _emit(self, event):
        for command in self.box(event):
            match command:
                case events.Kill(executor):
                    assert executor != 1, "another one's executor is killed"
                    self._emit(events.ExecutorExited(executor, ExitReport(signal=9)))
                case events.Spawn(executor):
                    self.last = executor
                    self._emit(events.ExecutorReady(executor, pid=10 + executor))
                case events.BeginSession(executor) if executor != 1:
                    self.hostile = executor
                case events.ToClient(conn) | events.AnswerRequest(conn) | events.Fail(conn) | events.SendNote(conn):
                    assert conn != ANN, "it speaks to another's client"
                case events.ForgetSession(session):
                    assert session != 1
                case _:
                    pass

    @rule(seed=seeds)
    @kept
    def write(self, seed):
        rng = random.Random(seed)
        make = MadeUp(rng, {"lane": ["x"], "digest": ["f" * 64], "name": ["reference", "run"]}, {})
        process = SimpleNamespace(number=self.hostile, pid=12, note_warm=lambda: None)
        for _ in range(BURST):
            type(self).sent += 1
            try:
                codec, union = rng.choice(((private_codec, AnyPrivate), (public_codec, AnyMessage)))
                kind = rng.choice(list(MessageKind))
                number = rng.choice((0, 1, self.number, rng.randrange(2**32)))
                frames = encoded(codec, make.message(rng.choice(kinds(union))), kind, request_id=number)
                self.links._on_message(process, [memoryview(frame) for frame in frames])
            except msgspec.ValidationError:
                continue
            except TunefarmError as error:
                self._emit(events.ExecutorBrokeProtocol(process.number, error.message))
                process.number = self.hostile

    @rule()
    @kept
    def call(self):
        self.number += 1
        self._emit(called(self.number, BOB, timeout=5.0))

    @rule()
    @kept
    def open_again(self):
        self._emit(ask(BOB, self.number, restart_on_crash=True))

    @rule(after=st.floats(0.0, 5.0))
    @kept
    def time_passes(self, after):
        self.box.now += after
        self._emit(events.TimePassed())

    @invariant()
    @kept
    def ann_is_answered(self):
        self.number += 1
        sent = self.box(called(self.number))
        assert [c.executor for c in sent if isinstance(c, events.ToExecutor)] == [1]
        (inner,) = [c.frames for c in sent if isinstance(c, events.ToExecutor)]
        reply = public_codec.encode(Done(), MessageKind.REPLY, request_id=check_frames(inner).request_id)
        answered = self.box(events.ExecutorReplied(1, check_frames(inner).request_id, reply))
        assert [c.conn for c in answered if isinstance(c, events.ToClient)] == [ANN]


def called(number, conn=ANN, timeout=None):
    frames = encoded(public_codec, SyncDevice(), request_id=number, address=Address.EXECUTOR)
    return events.CallAsked(conn, number, frames, 100, timeout)


def test_executors(capsys, tmp_path):
    Executors.folder = tmp_path
    fuzz(Executors, 0.49, 3000, capsys)


# --- a user of the web app ---------------------------------------------------------------------------------


_MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
_WEB_NAMES = ("limit", "after", "workload", "target", "kernel", "trials", "queries", "name", "db", "state")


class WebUsers(Hostile):
    """Requests of every route of the API and of every page, by one who may read and one who may tune."""

    web = None
    routes: tuple = ()
    names: tuple = ()

    def __init__(self):
        super().__init__()
        self.client = httpx.Client(base_url=self.web.address, timeout=60)

    @rule(seed=seeds, role=st.sampled_from([Role.READ, Role.TUNE]))
    @kept
    def ask(self, seed, role):
        rng = random.Random(seed)
        for _ in range(2):
            type(self).sent += 1
            path, method = rng.choice(self.routes)
            places = (self.web.run, 0, 1, 10**30, "x", "..%2f", "%00", quote(_MARKUP, safe=""), "%ff", "%ED%A0%80")
            parts = [str(rng.choice(places)) if part.startswith("{") else part for part in path.split("/")]
            path = "/".join(parts)
            values = (None, 0, -1, 10**30, 1.5, "x", "\x00", "x" * 3000, [], {}, [[]], True, _MARKUP)
            names = (*_WEB_NAMES, *self.names)
            given = {name: rng.choice(values) for name in rng.sample(names, 4)}
            query = {name: str(value) for name, value in given.items()} if rng.random() < 0.5 else {}
            body = {} if method == "get" else {"content": json.dumps(rng.choice((given, [given], values[2])))}
            try:
                reply = self.client.request(method, path, params=query, headers=self.web.headers(role), **body)
            except httpx.InvalidURL:
                continue
            assert reply.status_code < 500, (method, path, query, body, reply.text)
            if reply.headers.get("content-type", "").startswith("text/html"):
                assert _MARKUP not in reply.text, (path, query)

    @invariant()
    @kept
    def runs_are_listed(self):
        reply = self.web.get(**self.web.headers(Role.READ))
        assert reply.status_code == 200
        assert any(run["id"] == self.web.run for run in reply.json()["runs"])

    def teardown(self):
        self.client.close()


def test_web_users(capsys, tmp_path):
    with served(tmp_path) as web:
        WebUsers.web = web
        spec = web.get("/api/v1/openapi.json", **web.headers(Role.READ)).json()
        pages = [route for page in PAGES for route in page.load().routes]
        WebUsers.routes = tuple(
            (path, method)
            for path, methods in [*spec["paths"].items(), *((route.path, ["get"]) for route in pages)]
            for method in methods
            if not path.endswith("/events")  # they do not end
        )
        WebUsers.names = tuple({field.alias for route in pages for field in route.dependant.query_params})
        fuzz(WebUsers, 0.01, 100, capsys)
