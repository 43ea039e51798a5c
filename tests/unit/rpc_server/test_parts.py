"""The RPC layer's smaller parts: streams, blobs, leases, file names, folders, fingerprints, messages."""

import socket
import struct
import threading

import pytest
import zmq

from rpc_server.box.folders import ServerFolder
from rpc_server.errors import ProtocolError, RemoteFileError
from rpc_server.executor.session_files import SessionFiles
from rpc_server.farm_link.leases import LeaseReport, LeaseTable
from rpc_server.machine.blobs import BlobError, BlobStore, blob_digest
from rpc_server.machine.fingerprint import Fingerprint, _count_cpus, local_fingerprint
from rpc_server.wire.codec import MessageKind
from rpc_server.wire.messages import ArrayRef, Call, Measure, Measured, Raw, public_codec
from rpc_server.wire.request_summary import describe
from rpc_server.wire.sockets import came_before
from rpc_server.wire.stream import FrameStream, StreamClosed, StreamLimits, stream_pair
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest, MeasureResult

# --- streams -----------------------------------------------------------------------------------------------


@pytest.fixture
def pair():
    ours, theirs = stream_pair()
    left, right = FrameStream(ours), FrameStream(theirs)
    yield left, right
    left.close()
    right.close()


def as_bytes(messages):
    return [[bytes(frame) for frame in message] for message in messages]


def test_messages_keep_their_frames(pair):
    left, right = pair
    sent = [[b"a"], [b"", b"bc", b""], [bytes(100_000), b"tail"]]
    for message in sent:
        left.send(message)
    got = []
    while len(got) < len(sent):
        got += as_bytes(right.receive())
    assert got == sent


def test_big_messages_wait_for_the_reader(pair):
    left, right = pair
    left.sock.setblocking(False)
    big = bytes(range(256)) * (40 << 10)  # 10 MiB
    left.send([big, b"end"])
    assert left.backlog
    got = []

    def read():
        got.extend(right.receive())

    reader = threading.Thread(target=read)
    reader.start()
    while left.backlog:
        left.flush()
    reader.join()
    assert as_bytes(got) == [[big, b"end"]]


def test_memory_is_used_again_once_nobody_looks_at_it(pair):
    left, right = pair
    sizes = (100_000, 200_000, 99_999)

    def exchange(number):
        sent = bytes([number]) * sizes[number % len(sizes)]
        left.send([b"head", sent])
        got = right.receive()
        while not got:
            got = right.receive()
        assert as_bytes(got) == [[b"head", sent]]
        return got[0]

    kept = [exchange(number) for number in range(6)]
    assert len({id(frames[0].obj) for frames in kept}) == 6
    expected = as_bytes(kept)
    places = {id(exchange(number)[0].obj) for number in range(6, 40)}
    assert len(places) <= 4  # in turns: the last one is still looked at while the next arrives
    assert as_bytes(kept) == expected
    del kept
    exchange(40)


def test_a_byte_at_a_time(pair):
    left, right = pair
    right.sock.setblocking(False)
    raw = struct.pack("<I2I", 2, 3, 1) + b"abc" + b"d" + struct.pack("<I1I", 1, 0)
    got = []
    for byte in raw:
        left.sock.send(bytes([byte]))
        got += as_bytes(right.receive())
    assert got == [[b"abc", b"d"], [b""]]


@pytest.mark.parametrize("prefix", [struct.pack("<I", 0), struct.pack("<I", 99), struct.pack("<I1I", 1, 5000)])
def test_lengths_over_the_limits(pair, prefix):
    left, right = pair
    limited = FrameStream(right.sock, StreamLimits(max_frames=4, max_message=4096))
    left.sock.send(prefix + b"x")
    with pytest.raises(ProtocolError):
        limited.receive()


def test_the_other_end_closes(pair):
    left, right = pair
    left.send([b"last"])
    left.sock.shutdown(socket.SHUT_RDWR)
    assert as_bytes(right.receive()) == [[b"last"]]
    with pytest.raises(StreamClosed):
        right.receive()
    with pytest.raises(StreamClosed):
        right.send([bytes(8 << 20)])


# --- blobs -------------------------------------------------------------------------------------------------


def put(store, data, owner=b"me", step=4):
    digest = blob_digest(data)
    starts = range(0, max(len(data), 1), step)
    return digest, [store.put(owner, owner, digest, len(data), at, data[at : at + step]) for at in starts]


def test_blobs_arrive_in_chunks(tmp_path):
    store = BlobStore(tmp_path / "blobs", capacity=100)
    digest, done = put(store, b"0123456789")
    assert done == [False, False, True]
    assert store.has(b"me", digest)
    assert bytes(store.read(b"me", digest)) == b"0123456789"
    assert store.put(b"other", b"me", digest, 10, 0, b"0123") is True  # known already
    empty, done = put(store, b"")
    assert (done, store.read(b"me", empty)) == ([True], b"")
    assert store.missing(b"me", [digest, "f" * 64]) == ("f" * 64,)
    assert store.read(b"me", "f" * 64) is None


def test_a_digest_alone_gets_no_blob(tmp_path):
    """Another client has to send all of it; then both share one file."""
    store = BlobStore(tmp_path / "blobs", capacity=100)
    digest, _ = put(store, b"0123456789")
    assert (store.missing(b"eve", [digest]), store.read(b"eve", digest)) == ((digest,), None)
    assert store.put(b"eve", b"eve", digest, 10, 0, b"0123") is False  # as if it had never been here
    with pytest.raises(BlobError, match="another sha256"):
        store.put(b"eve", b"eve", digest, 10, 4, b"wrong!")
    assert store.read(b"eve", digest) is None
    assert put(store, b"0123456789", owner=b"eve")[1] == [False, False, True]
    assert bytes(store.read(b"eve", digest)) == b"0123456789"
    assert store.used == 10
    assert len(list((tmp_path / "blobs").iterdir())) == 1
    store.forget_owner(b"eve")
    assert store.read(b"eve", digest) is None


def test_the_blob_used_longest_ago_makes_room(tmp_path):
    store = BlobStore(tmp_path / "blobs", capacity=100)
    digests = [put(store, bytes([i]) * 40, step=40)[0] for i in range(2)]
    store.read(b"me", digests[0])
    third, _ = put(store, b"x" * 40, step=40)
    assert [store.has(b"me", d) for d in (*digests, third)] == [True, False, True]
    assert store.used == 80
    assert len(list((tmp_path / "blobs").iterdir())) == 2


def test_unfinished_uploads_count(tmp_path):
    """They make room as whole blobs do, and who has most under way gives way."""
    store = BlobStore(tmp_path / "blobs", capacity=100)
    kept, _ = put(store, b"x" * 40, step=40)
    for number, owner in enumerate((b"eve", b"eve", b"bob")):
        store.put(owner, owner, blob_digest(bytes([number])), 50, 0, bytes(25))
    assert not store.has(b"me", kept)  # 40 + 75 are over 100
    with pytest.raises(BlobError, match="50 bytes of unfinished"):
        store.put(b"eve", b"eve", blob_digest(b"2"), 50, 0, bytes(1))
    whole, _ = put(store, b"y" * 40, step=20)
    assert store.has(b"me", whole)
    with pytest.raises(ProtocolError, match="order"):
        store.put(b"eve", b"eve", blob_digest(bytes([0])), 50, 25, bytes(5))
    assert sum(path.stat().st_size for path in (tmp_path / "blobs").iterdir()) == 90
    store.forget_owner(b"eve")
    store.forget_owner(b"bob")
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == [whole]
    assert store._begun.total() == 0


def test_a_blob_whose_file_vanished_was_never_there(tmp_path):
    store = BlobStore(tmp_path / "blobs", capacity=100)
    digest, _ = put(store, b"0123456789")
    (tmp_path / "blobs" / digest).unlink()
    assert store.read(b"me", digest) is None
    assert (store.has(b"me", digest), store.used) == (False, 0)
    assert put(store, b"0123456789")[1][-1] is True


def test_bad_blobs_leave_nothing(tmp_path):
    store = BlobStore(tmp_path / "blobs", capacity=100, max_partial=2)
    digest = blob_digest(b"right")
    with pytest.raises(BlobError, match="another sha256"):
        store.put(b"me", b"me", digest, 5, 0, b"wrong")
    with pytest.raises(BlobError, match="limit"):
        store.put(b"me", b"me", digest, 51, 0, b"x")
    for size, offset, name in ((5, 3, digest), (3, 0, "../x"), (3, -1, digest), (9, 4, digest)):
        with pytest.raises(ProtocolError):
            store.put(b"me", b"me", name, size, offset, b"abcd")
    store.put(b"me", b"me", digest, 10, 0, b"abcd")
    with pytest.raises(ProtocolError, match="order"):
        store.put(b"me", b"me", digest, 11, 4, b"abcd")
    for i in range(2):
        store.put(b"me", b"me", blob_digest(bytes([i])), 10, 0, b"abcd")
    with pytest.raises(ProtocolError, match="under way"):
        store.put(b"me", b"me", digest, 10, 0, b"abcd")
    store.put(b"you", b"you", digest, 10, 0, b"abcd")
    store.forget_owner(b"me")
    store.forget_owner(b"you")
    assert list((tmp_path / "blobs").iterdir()) == []


# --- leases ------------------------------------------------------------------------------------------------


def test_leases_are_granted_renewed_and_end():
    now = [0.0]
    table = LeaseTable(clock=lambda: now[0])
    woken, woken_by_known = [], []
    table.on_change(lambda: woken.append(1))
    table.on_change_of_known(lambda: woken_by_known.append(1))
    table.grant("L1", "t1", 10)
    table.grant("L2", "t2", 20)
    assert table.check("t1").lease_id == "L1"
    assert table.check("t3") is None
    assert table.next_expiry() == 10
    now[0] = 10
    assert table.check("t1") is None
    assert [(e.lease_id, "expired" in e.reason) for e in table.take_ended()] == [("L1", True)]
    table.grant("L2", "t2", 30)  # renewed
    now[0] = 25
    assert table.check("t2") is not None
    table.grant("L2", "new", 40)
    assert table.check("t2") is None
    table.revoke("L2", "enough")
    table.revoke("L2")
    assert [e.reason for e in table.take_ended()] == ["the lease was given a new token", "enough"]
    table.grant("L3", "t", 50)
    table.revoke("L3", "closing")
    assert table.active() == ()
    assert len(woken) == 8
    assert len(woken_by_known) == 5
    table.report(LeaseReport("L1", "closed", "x"))
    assert table.next_report(0) == LeaseReport("L1", "closed", "x")
    assert table.next_report(0) is None


# --- files, folders, fingerprint, messages -----------------------------------------------------------------


def test_links_are_not_followed(tmp_path):
    (tmp_path / "outside").write_bytes(b"secret")
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    files = SessionFiles(str(folder))
    with pytest.raises(RemoteFileError):
        files.read("link")
    with pytest.raises(RemoteFileError):
        files.write("link", b"x")
    files.remove("link")
    assert (tmp_path / "outside").read_bytes() == b"secret"
    files.write("a file.bin", b"0123456789")
    assert files.read("a file.bin", 2, 3) == (10, b"234")


def test_only_abandoned_server_folders_are_removed(tmp_path):
    alive, fresh = ServerFolder(tmp_path), ServerFolder(tmp_path)
    dead = tmp_path / "tunefarm-server-dead"
    dead.mkdir()
    (dead / "lock").touch()
    being_made = tmp_path / "tunefarm-server-new"
    being_made.mkdir()
    assert fresh.remove_leftovers() == 1
    assert alive.path.exists()
    assert being_made.exists()
    assert not dead.exists()
    alive.remove()
    fresh.remove()


def test_the_fingerprint_of_this_machine():
    here = local_fingerprint()
    assert here.cores >= 1
    assert here.memory > 1 << 28
    assert here.target.startswith("llvm")
    assert here.device_class.endswith(here.features_digest)
    assert Fingerprint.from_builtins(here.to_builtins()) == here
    assert here.to_builtins()["device_class"] == here.device_class


@pytest.mark.parametrize(("text", "count"), [("", 0), ("0", 1), ("0-3", 4), ("0-1,8,10-11", 5), ("none", 0)])
def test_counting_cpus(text, count):
    assert _count_cpus(text) == count


def test_trials_travel():
    request = MeasureRequest("a" * 64, options=EvaluatorOptions(number=7, flush_cache=True), reference="b" * 64)
    assert public_codec.decode(public_codec.encode(Measure(request))).body.request == request
    result = MeasureResult(costs=(1e-6, 2e-6), environment={"load_1m": 0.5})
    assert public_codec.decode(public_codec.encode(Measured(result), MessageKind.REPLY)).body.result == result
    failed = MeasureResult(failure=FailureKind.CRASH, text="bang")
    assert public_codec.decode(public_codec.encode(Measured(failed), MessageKind.REPLY)).body.result == failed
    assert (failed.ok, failed.mean, result.mean) == (False, float("inf"), 1.5e-6)
    with pytest.raises(ValueError, match="at least 1"):
        EvaluatorOptions(number=0)


def test_argument_values_keep_their_types():
    values = (ArrayRef(3, "float32", (2, 3)), Raw(b"x"), True, 1, 1.5, "s", None, 2**63)
    body = public_codec.decode(public_codec.encode(Call(None, "f", values))).body
    assert body.args == values
    assert [type(value) for value in body.args] == [type(value) for value in values]


def test_requests_are_named_for_people():
    assert describe(public_codec.encode(Call(1, "matmul", ()))[1]) == "call of 'matmul'"
    assert describe(b"\xc1") == "an unreadable request"


@pytest.mark.parametrize(
    ("one", "other", "before"),
    [
        (b"\0\0\0\0\1", b"\0\0\0\0\2", True),
        (b"\0\0\0\0\2", b"\0\0\0\0\1", False),
        (b"\0\0\0\0\2", b"\0\0\0\0\2", False),
        (b"\0\xff\xff\xff\xff", b"\0\0\0\0\0", True),
        (b"chosn", b"\0\0\0\0\1", False),
        (b"name", b"\0\0\0\0\1", False),
    ],
)
def test_which_of_two_connections_came_first(one, other, before):
    assert came_before(one, other) is before


def test_a_router_numbers_its_connections_in_the_order_they_came():
    context = zmq.Context()
    with context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        names = []
        for _ in range(3):
            with context.socket(zmq.DEALER) as dealer:
                dealer.connect(f"tcp://127.0.0.1:{port}")
                dealer.send(b"")
                names.append(router.recv_multipart()[0])
    context.term()
    assert came_before(names[0], names[1])
    assert came_before(names[1], names[2])
