"""A session on a real server: files, modules, arrays, calls, timing, and the errors a script meets."""

import hashlib
import threading
import time

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.errors import ArgumentError, ArtifactError, DeviceError
from compiler.runtime.core import ndarray as nd
from compiler.runtime.core.device import cpu
from compiler.runtime.core.registry import RegistryError
from rpc_server.box.server import Server
from rpc_server.client.connect import box_status, connect, open_session
from rpc_server.errors import ConnectError, HandleError, RemoteFileError, SessionClosed, SessionRefused
from rpc_server.machine.blobs import BlobError
from rpc_server.machine.fingerprint import local_fingerprint
from tests.kit.farm.rpc_kernels import kernel, with_features
from tests.kit.threads import in_threads
from tunefarm import te


@pytest.fixture(scope="module")
def server():
    with Server(port=0, key="box-key", sessions=2, warm=2, blob_capacity=40 << 20) as running:
        yield running


def load(remote, artifact, name="kernel.tunefarm"):
    remote.upload(artifact.to_bytes(), name)
    return remote.load_module(name)


def test_upload_load_call_and_time(remote):
    module = load(remote, kernel("add_one"))
    assert module.get_function_list() == ["kernel"]
    x = np.random.default_rng(0).random(1024, dtype=np.float32)
    a, b = nd.array(x, remote.cpu()), nd.empty((1024,), "float32", remote.cpu())
    module["kernel"](a, b)
    np.testing.assert_array_equal(b.numpy(), x + 1)
    module(b, a)  # the entry function
    np.testing.assert_array_equal(a.numpy(), x + 2)
    timer = module.time_evaluator("kernel", remote.cpu(), number=5, repeat=3)
    result = timer(a, b)
    assert len(result.results) == 3
    assert 0 < result.mean <= result.max


def test_arrays_of_many_chunks_come_back_whole(remote):
    x = np.random.default_rng(1).integers(0, 255, (3 << 20) + 12345, dtype=np.uint8)
    there = nd.array(x, remote.cpu())
    copy = there.copyto(remote.cpu())
    np.testing.assert_array_equal(copy.numpy(), x)
    assert str(there.device).startswith("remote cpu(0)")


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_odd_shapes_travel(remote, shape):
    x = np.full(shape, 7, np.int64)
    np.testing.assert_array_equal(nd.array(x, remote.cpu()).numpy(), x)


def test_files_of_a_session(remote, tmp_path):
    data = np.random.default_rng(2).bytes((2 << 20) + 77)
    path = tmp_path / "data.bin"
    path.write_bytes(data)
    remote.upload(path)
    assert bytes(remote.download("data.bin")) == data
    remote.upload(b"", target="empty")
    assert bytes(remote.download("empty")) == b""
    remote.upload(b"new", target="data.bin")
    assert bytes(remote.download("data.bin")) == b"new"
    remote.remove("data.bin")
    with pytest.raises(RemoteFileError, match=r"data\.bin"):
        remote.download("data.bin")
    with pytest.raises(RemoteFileError, match="missing"):
        remote.upload(tmp_path / "missing")


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "x\0y", "n" * 300])
def test_names_stay_inside_the_folder(remote, name):
    for action in (lambda: remote.upload(b"x", target=name or None), lambda: remote.download(name)):
        with pytest.raises(RemoteFileError):
            action()


def test_sessions_do_not_see_each_other(server, remote):
    remote.upload(b"mine", target="secret")
    with open_session("127.0.0.1", server.port, wait_s=60) as other:
        with pytest.raises(RemoteFileError):
            other.download("secret")
        a = nd.array(np.zeros(1024, np.float32), remote.cpu())
        module = load(other, kernel("add_one"))
        with pytest.raises(ArgumentError, match="argument 0"):
            module(a, a)


def test_wrong_arguments_are_argument_errors_here(remote):
    module = load(remote, kernel("add_one"))
    good = nd.array(np.zeros(1024, np.float32), remote.cpu())
    double = nd.array(np.zeros(1024, np.float64), remote.cpu())
    short = nd.array(np.zeros(1000, np.float32), remote.cpu())
    for bad, words in (
        (double, "float64"),
        (short, "1000"),
        (nd.array(np.zeros(1024, np.float32)), "remote.cpu"),
        (np.zeros(1024, np.float32), "numpy"),
        (object(), "object"),
    ):
        with pytest.raises(ArgumentError) as caught:
            module(good, bad)
        assert words in str(caught.value)
        assert "argument 1" in caught.value.message
    with pytest.raises(ArgumentError, match="2 arguments"):
        module(good)
    with pytest.raises(AttributeError, match="nothing"):
        module["nothing"]
    with pytest.raises(DeviceError, match=r"remote\.cpu"):
        module.time_evaluator("kernel", cpu())
    module(good, good)  # the session is fine


def test_an_artifact_for_a_cpu_feature_the_box_lacks_is_refused(remote):
    with pytest.raises(ArtifactError, match="lacks: avx-of-tomorrow"):
        load(remote, with_features(kernel("add_one"), "avx-of-tomorrow"))


def test_a_damaged_artifact_is_refused(remote):
    data = bytearray(kernel("add_one").to_bytes())
    data[-1] ^= 1
    remote.upload(bytes(data), "bad.tunefarm")
    with pytest.raises(ArtifactError, match="damaged"):
        remote.load_module("bad.tunefarm")


def test_devices_that_are_not_there(remote):
    assert remote.cpu(0).exist
    assert not remote.cuda(0).exist
    with pytest.raises(DeviceError):
        nd.array(np.zeros(4, np.float32), remote.cuda())
    with pytest.raises(ValueError, match="warp drive"):
        remote.device("warp drive")


def test_too_much_memory_is_an_error_not_a_crash(remote):
    with pytest.raises(DeviceError, match="cannot allocate"):
        nd.empty((1 << 46,), "float32", remote.cpu())
    nd.empty((4,), "float32", remote.cpu())


def test_freed_arrays_are_gone(remote):
    a = nd.array(np.zeros(1024, np.float32), remote.cpu())
    handle, dev = a.handle, a.device
    del a
    kept = nd.array(np.zeros(1024, np.float32), remote.cpu())
    with pytest.raises(HandleError):
        dev.api.copy_within(dev, handle, kept.handle, 16)


def test_global_functions(remote):
    flush = remote.get_function("cache_flush_cpu_non_first_arg")
    a = nd.array(np.zeros(1024, np.float32), remote.cpu())
    assert flush(a, a) is None
    with pytest.raises(RegistryError, match=r"no\.such"):
        remote.get_function("no.such")


def test_a_blob_that_is_too_big_is_refused(remote):
    with pytest.raises(BlobError, match="limit"):
        remote.upload(bytes(21 << 20), target="big")
    remote.upload(bytes(19 << 20), target="fits")
    for i in range(4):  # older blobs make room
        remote.upload(hashlib.sha256(bytes([i])).digest() * (19 << 15), target=f"fits{i}")


def test_the_box_describes_itself(server, remote):
    assert remote.fingerprint() == local_fingerprint()
    status = box_status("127.0.0.1", server.port)
    assert status.key == "box-key"
    assert len(status.sessions) == 1


def test_a_busy_box_says_who_has_it(server):
    with (
        open_session("127.0.0.1", server.port, wait_s=60, client="ann"),
        open_session("127.0.0.1", server.port, wait_s=60, client="bob") as bob,
    ):
        with pytest.raises(SessionRefused, match=r"busy.*ann, bob"):
            open_session("127.0.0.1", server.port, wait_s=0.2)
        threading.Timer(0.3, bob.close).start()
        open_session("127.0.0.1", server.port, wait_s=60).close()


def test_another_key_is_refused(server):
    with pytest.raises(SessionRefused, match="box-key"):
        connect("127.0.0.1", server.port, key="other")
    connect("127.0.0.1", server.port, key="box-key").close()


def use_until_it_ends(session):
    while True:
        session.cpu().sync()
        time.sleep(0.05)


def test_a_session_ends_at_its_time_limit(server):
    session = connect("127.0.0.1", server.port, session_timeout=4.0)
    with pytest.raises(SessionClosed, match=r"time limit of 4 s"):
        use_until_it_ends(session)
    session.close()


def test_a_closed_session_says_so(server):
    session = connect("127.0.0.1", server.port)
    device = session.cpu()
    called = []
    session.on_close(lambda: called.append(1))
    session.close()
    session.close()
    assert called == [1]
    with pytest.raises(SessionClosed, match="closed"):
        device.sync()


def test_nothing_listens():
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1\b") as caught:
        connect("127.0.0.1", 1)
    assert "tunefarm server" in str(caught.value)
    with pytest.raises(ConnectError, match="unknown host"):
        connect("no-such-host.invalid", 9091)


def test_unsupported_ways_to_connect_are_refused():
    with pytest.raises(SessionRefused, match="session_constructor_args"):
        connect("127.0.0.1", 9091, session_constructor_args=["rpc.Connect"])


def test_threads_share_a_session(remote):
    module = load(remote, kernel("add_one"))

    def work(value):
        x = np.full(1024, value, np.float32)
        a, b = nd.array(x, remote.cpu()), nd.empty((1024,), "float32", remote.cpu())
        for _ in range(20):
            module(a, b)
        np.testing.assert_array_equal(b.numpy(), x + 1)

    in_threads(work, range(4))


def test_shapes_that_the_call_tells(remote):
    size = te.size_var("n")
    a = te.placeholder((size, 3), name="A")
    artifact = compile_artifact(
        te.create_prim_func([a, te.compute((size * 2, 3), lambda i, j: a[i // 2, j], name="B")]), "llvm", name="kernel"
    )
    module = load(remote, artifact, "dynamic.tunefarm")
    for rows in (1, 4):
        x = np.random.default_rng(rows).random((rows, 3), dtype=np.float32)
        out = nd.empty((2 * rows, 3), "float32", remote.cpu())
        module["kernel"](nd.array(x, remote.cpu()), out)
        np.testing.assert_array_equal(out.numpy(), np.repeat(x, 2, axis=0))
    timer = module.time_evaluator("kernel", remote.cpu(), number=2)
    assert timer(nd.array(x, remote.cpu()), out).mean > 0
    with pytest.raises(ArgumentError, match=r"argument 1 \(B\) .* but n\*2 is 2 \(n = 1 from dimension 0 of"):
        module["kernel"](nd.array(x[:1], remote.cpu()), out)
