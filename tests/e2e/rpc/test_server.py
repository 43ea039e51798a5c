"""Starting servers, leases, and peers that do not play by the rules."""

import gc
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import zmq

from compiler.runtime.core import ndarray as nd
from compiler.runtime.core.registry import RegistryError
from rpc_server.box.server import Server, serve
from rpc_server.box.server_options import ServerOptions
from rpc_server.box.supervisor_records import SupervisorConfig
from rpc_server.client.connect import connect, open_session
from rpc_server.client.connection import Connection
from rpc_server.client.remote import encode_arguments
from rpc_server.errors import LeaseRefused, ProtocolError, RPCError, ServerStartError, SessionClosed
from rpc_server.farm_link.leases import LeaseTable
from rpc_server.wire.codec import Address, MessageKind, pack_header
from rpc_server.wire.messages import Call, CloseSession, Done, OpenSession, Ping, PutBlob, SyncDevice, public_codec
from rpc_server.wire.private_messages import Hello, private_codec
from tests.kit.farm.rpc_kernels import kernel
from tests.kit.farm.supervisor import own_supervisor


@pytest.fixture(scope="module")
def server():
    with Server(port=0) as running:
        yield running


@pytest.fixture
def lent(tmp_path):
    """Lent out by the test as a tracker would."""
    leases = LeaseTable()
    with own_supervisor(tmp_path, SupervisorConfig(box="lent", leases_required=True), leases) as port:
        yield SimpleNamespace(port=port, leases=leases)


def test_a_client_gone_before_the_supervisor_ran_holds_no_session(tmp_path):
    def come_and_go(port):
        context = zmq.Context()
        with context.socket(zmq.DEALER) as sock:
            sock.setsockopt(zmq.LINGER, 60_000)
            sock.connect(f"tcp://127.0.0.1:{port}")
            sock.send_multipart(public_codec.encode(OpenSession("fleeting", wait_s=60), request_id=1))
        context.term()

    with (
        own_supervisor(tmp_path, SupervisorConfig(box="late"), before=come_and_go) as port,
        open_session("127.0.0.1", port, wait_s=60) as session,
    ):
        session.cpu().sync()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_other_users_children_of_the_process_are_left_alone(tmp_path):
    other = subprocess.Popen(["sleep", "600"], user="nobody")
    try:
        with own_supervisor(tmp_path, SupervisorConfig(box="shared")) as port:
            for _ in range(2):  # what the first session left behind is looked for before the second one has an executor
                with open_session("127.0.0.1", port, wait_s=60) as session:
                    session.cpu().sync()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def use_until_it_ends(session):
    while True:
        session.cpu().sync()
        time.sleep(0.01)


def test_a_lease_opens_and_ends_a_session(lent):
    with pytest.raises(LeaseRefused, match="tracker"):
        open_session("127.0.0.1", lent.port)
    lent.leases.grant("lease-1", "token-1", time.monotonic() + 60)
    with pytest.raises(LeaseRefused):
        open_session("127.0.0.1", lent.port, token="token-2")
    session = open_session("127.0.0.1", lent.port, token="token-1", wait_s=60)
    assert lent.leases.next_report(60).event == "opened"
    session.cpu().sync()
    lent.leases.revoke("lease-1", "the tracker wants it back")
    with pytest.raises(SessionClosed, match="wants it back"):
        use_until_it_ends(session)
    report = lent.leases.next_report(60)
    assert (report.lease_id, report.event) == ("lease-1", "closed")
    with pytest.raises(LeaseRefused):
        open_session("127.0.0.1", lent.port, token="token-1")
    session.close()


def test_a_lease_that_runs_out_ends_its_session(lent):
    lent.leases.grant("lease-1", "token-1", time.monotonic() + 60)
    with open_session("127.0.0.1", lent.port, token="token-1", wait_s=60) as session:
        lent.leases.grant("lease-1", "token-1", time.monotonic() + 0.4)
        with pytest.raises(SessionClosed, match="expired"):
            use_until_it_ends(session)


def test_the_same_lease_opened_again_takes_over(lent):
    lent.leases.grant("lease-1", "token-1", time.monotonic() + 60)
    first = open_session("127.0.0.1", lent.port, token="token-1", wait_s=60)
    with open_session("127.0.0.1", lent.port, token="token-1", wait_s=60) as second:
        second.cpu().sync()
        with pytest.raises(SessionClosed, match="same lease"):
            first.cpu().sync()
    first.close()


def test_a_stopped_client_loses_its_session(lent):
    lent.leases.grant("lease-1", "token-1", time.monotonic() + 60)
    code = f"""
        import time
        from rpc_server.client.connect import open_session
        session = open_session("127.0.0.1", {lent.port}, token="token-1", wait_s=60)
        print("open", flush=True)
        time.sleep(600)
    """
    client = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout.readline() == "open\n"
        client.send_signal(signal.SIGSTOP)
        assert lent.leases.next_report(60).event == "opened"
        assert lent.leases.next_report(60).event == "closed"
    finally:
        client.kill()
        client.wait()
        client.stdout.close()


def test_a_dropped_session_object_closes(lent):
    lent.leases.grant("lease-1", "token-1", time.monotonic() + 60)
    session = open_session("127.0.0.1", lent.port, token="token-1", wait_s=60)
    released = threading.Event()
    session.on_close(released.set)
    array = nd.array(np.arange(8), session.cpu())
    assert array.numpy().tolist() == list(range(8))
    gc.disable()  # dropping the last reference is enough
    try:
        del array, session
        assert released.is_set()
    finally:
        gc.enable()
    assert [lent.leases.next_report(60).event for _ in range(2)] == ["opened", "closed"]


# --- starting ----------------------------------------------------------------------------------------------


def test_a_port_in_use_is_named(server):
    with pytest.raises(ServerStartError, match=f"port {server.port} on 127.0.0.1 is in use") as caught:
        Server(port=server.port, port_end=0)
    assert "--port" in str(caught.value)
    with pytest.raises(ServerStartError, match="is in use"):
        serve(ServerOptions(port=server.port))


def test_the_next_free_port_is_taken(server):
    with Server(port=server.port, port_end=server.port + 50) as second:
        assert server.port < second.port < server.port + 50
        connect("127.0.0.1", second.port).close()


def test_other_interfaces_need_insecure():
    with pytest.raises(ServerStartError, match=r"refusing to listen on 0\.0\.0\.0") as caught:
        Server(host="0.0.0.0", port=0)
    assert "--insecure" in str(caught.value)
    with Server(host="0.0.0.0", port=0, insecure=True, silent=True) as running:
        connect("127.0.0.1", running.port).close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "no-such-host.invalid"}, "no-such-host"),
        ({"is_proxy": True}, "a key that it serves"),
        ({"folder": "/no/such/folder"}, "/no/such/folder"),
    ],
)
def test_bad_options_are_told(options, words):
    with pytest.raises(ServerStartError, match=words):
        Server(port=0, **options)


def test_the_port_file(tmp_path):
    with Server(port=0, port_file=str(tmp_path / "port")) as running:
        assert (tmp_path / "port").read_text() == f"{running.port}\n"


# --- hostile peers -----------------------------------------------------------------------------------------


@pytest.fixture
def honest(server):
    """A session that works before and after whatever the test does."""
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        yield session
        session.upload(kernel("add_one").to_bytes(), "k")
        a = nd.array(np.ones(1024, np.float32), session.cpu())
        session.load_module("k")(a, a)
        assert (a.numpy() == 2).all()


@pytest.fixture
def peer(server):
    sock = zmq.Context.instance().socket(zmq.DEALER)
    sock.setsockopt(zmq.LINGER, 0)
    sock.connect(f"tcp://127.0.0.1:{server.port}")
    yield sock
    sock.close()


def ask_raw(peer, frames):
    peer.send_multipart([bytes(frame) for frame in frames])
    assert peer.poll(60_000)
    return public_codec.decode(peer.recv_multipart())


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"hello", b"world"],
        [pack_header(MessageKind.REQUEST)],
        [pack_header(MessageKind.REQUEST), b"\xc1"],
        [pack_header(MessageKind.REQUEST, buffers=3), b"\x80"],
        [pack_header(MessageKind.REPLY), b"\x80"],
        [pack_header(MessageKind.REQUEST)] + [b""] * 40,
        private_codec.encode(Hello("root"), MessageKind.NOTE),
        public_codec.encode(Done(), MessageKind.REQUEST),
        public_codec.encode(SyncDevice(), MessageKind.REQUEST, address=Address.PEER),
    ],
)
def test_frames_that_are_no_request(server, honest, peer, frames):
    with pytest.raises(ProtocolError):
        ask_raw(peer, frames)
    assert isinstance(ask_raw(peer, public_codec.encode(Ping(), request_id=3)).body, Done)


def test_requests_without_a_session(server, honest, peer):
    for address in (Address.EXECUTOR, Address.TRIAL):
        with pytest.raises(SessionClosed, match="no session"):
            ask_raw(peer, public_codec.encode(SyncDevice(), address=address))
    with pytest.raises(SessionClosed):
        ask_raw(peer, public_codec.encode(PutBlob("0" * 64, 1, 0), buffers=[b"x"]))
    assert isinstance(ask_raw(peer, public_codec.encode(CloseSession())).body, Done)


def test_an_executor_is_not_asked_to_do_the_supervisors_work(honest):
    for body in (OpenSession("me"), Done(), CloseSession()):
        with pytest.raises(ProtocolError):
            honest._connection.request(body, address=Address.EXECUTOR)


def test_bad_blobs(honest):
    connection = honest._connection
    digest = "0" * 64
    for put, data in (
        (PutBlob(digest, 4, 2), b"xx"),
        (PutBlob(digest, 1, 0), b"xx"),
        (PutBlob("../../etc/passwd", 1, 0), b"x"),
        (PutBlob(digest, 2**60, 0), b"x"),
        (PutBlob(digest, 4, 0), b"good"),
    ):
        with pytest.raises(RPCError):
            connection.request(put, [data])


def test_a_flood_ends_only_the_flooders_session(server):
    with open_session("127.0.0.1", server.port, wait_s=60) as flooder:
        connection = flooder._connection
        flooder.upload(kernel("sleepy").to_bytes(), "k")
        module = flooder.load_module("k")
        a = nd.array(np.ones(1024, np.float32), flooder.cpu())
        values = encode_arguments(flooder, "kernel", (a, a))
        call = Call(module.handle, "kernel", values)
        with pytest.raises((ProtocolError, SessionClosed)):
            # sent ahead, none awaited
            connection.wait([connection.send(call, address=Address.EXECUTOR) for _ in range(6000)][-1])
    connect("127.0.0.1", server.port).close()


def test_other_protocols_and_broken_connections(server, honest):
    for payload in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"\xff" + b"\x00" * 8 + b"\x7f" + b"\x00" * 200):
        with socket.create_connection(("127.0.0.1", server.port)) as stranger:
            stranger.sendall(payload)
    for _ in range(20):
        socket.create_connection(("127.0.0.1", server.port)).close()


def test_an_oversized_frame_drops_only_its_connection(server, honest, peer):
    peer.send_multipart([pack_header(MessageKind.REQUEST, buffers=1), b"\x80", bytes(8 << 20)])
    assert not peer.poll(300)


def test_random_mutations_of_real_messages(server, honest):
    rng = random.Random(7)
    samples = [
        public_codec.encode(OpenSession("x"), request_id=1),
        public_codec.encode(PutBlob("0" * 64, 5, 0), request_id=2, buffers=[b"12345"]),
        public_codec.encode(SyncDevice(), request_id=3, address=Address.EXECUTOR),
        public_codec.encode(Ping(), request_id=4),
    ]
    for _ in range(30):
        sock = zmq.Context.instance().socket(zmq.DEALER)
        sock.setsockopt(zmq.LINGER, 50)
        sock.connect(f"tcp://127.0.0.1:{server.port}")
        for _ in range(10):
            frames = [bytearray(frame) for frame in rng.choice(samples)]
            for _ in range(rng.randint(1, 6)):
                frame = rng.choice(frames)
                if frame:
                    frame[rng.randrange(len(frame))] = rng.randrange(256)
            sock.send_multipart([bytes(frame) for frame in frames])
        sock.close()


def test_something_else_that_listens_is_told_apart():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer():
            client, _ = listener.accept()
            client.recv(100)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            client.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RPCError, match=f"127.0.0.1:{port}"):
            Connection("127.0.0.1", port, timeout_s=3.0)
        thread.join()


def test_a_silent_listener_is_given_up_on():
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(RPCError, match="no answer in time"):
        Connection("127.0.0.1", listener.getsockname()[1], timeout_s=0.3)


def test_functions_that_programs_try_a_server_with(server):
    with connect("127.0.0.1", server.port) as remote:
        assert remote.get_function("rpc.test.addone")(10) == 11
        assert remote.get_function("rpc.test.strcat")("abc", 11) == "abc:11"
        with pytest.raises(RPCError, match="ValueError: abc"):
            remote.get_function("rpc.test.except")("abc")
        remote.get_function("rpc.test.remote_array_func")(nd.array(np.ones((3, 4)), remote.cpu(0)))
        with pytest.raises(RegistryError, match=r"no global function 'rpc\.test\.another'"):
            remote.get_function("rpc.test.another")
