"""A session without a server to start, modules in files of every kind, and devices by their names."""

import shutil

import numpy as np
import pytest

from compiler.errors import ArtifactError, DeviceError
from compiler.runtime.core import ndarray as nd
from compiler.runtime.core.registry import RegistryError, register_func, remove_global_func
from compiler.runtime.load import load_artifact, load_module
from rpc_server.errors import HandleError, RemoteFileError, RPCError, SessionRefused
from rpc_server.wire.messages import RETURNED_FUNCTION, Call, ReadMemory
from tests.kit.farm.rpc_kernels import kernel
from tunefarm import rpc

needs_linker = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to link with")


@pytest.fixture(scope="module")
def remote():
    with rpc.LocalSession() as session:
        yield session


def check(remote, module):
    a, b = nd.array(np.arange(64, dtype=np.float32), remote.cpu()), nd.empty((64,), "float32", remote.cpu())
    module["kernel"](a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(64) + 1)


@pytest.mark.parametrize("suffix", ["tunefarm", "tar", pytest.param("so", marks=needs_linker)])
def test_modules_in_files_of_every_kind(remote, tmp_path, suffix):
    file = tmp_path / f"lib.{suffix}"
    load_artifact(kernel("add_one", 64)).export_library(str(file))
    remote.upload(str(file))
    check(remote, remote.load_module(file.name))


def test_functions_of_imported_modules(remote, tmp_path):
    module = load_artifact(kernel("negate", 64, name="other"))
    module.import_module(load_artifact(kernel("add_one", 64)))
    module.export_library(str(tmp_path / "both.tar"))
    remote.upload(str(tmp_path / "both.tar"))
    loaded = remote.load_module("both.tar")
    assert set(loaded.get_function_list()) == {"other", "kernel"}
    check(remote, loaded)


@needs_linker
def test_a_module_is_linked_on_the_box(remote, tmp_path):
    load_artifact(kernel("add_one", 64)).export_library(str(tmp_path / "lib.tar"))
    remote.upload(str(tmp_path / "lib.tar"))
    (tmp_path / "back.so").write_bytes(remote.download_linked_module("lib.tar"))
    a, b = nd.array(np.zeros(64, np.float32)), nd.empty((64,), "float32")
    load_module(str(tmp_path / "back.so"))["kernel"](a, b)
    np.testing.assert_array_equal(b.numpy(), 1)
    with pytest.raises(RemoteFileError):
        remote.download("lib.linked.so")


def test_what_is_no_module(remote):
    remote.upload(b"no module", "x.so")
    with pytest.raises(ArtifactError, match=r"x\.so"):
        remote.load_module("x.so")
    with pytest.raises(RemoteFileError):
        remote.load_module("absent.so")


def test_the_system_library_holds_what_was_loaded_for_it(remote):
    assert remote.system_lib().get_function_list() == []


@pytest.mark.parametrize(
    ("maker", "kind"),
    [
        ("cuda", "cuda"), ("opencl", "opencl"), ("cl", "opencl"), ("vulkan", "vulkan"), ("metal", "metal"),
        ("mtl", "metal"), ("rocm", "rocm"), ("ext_dev", "ext_dev"), ("hexagon", "hexagon"), ("webgpu", "webgpu"),
    ],
)  # fmt: skip
def test_devices_by_name(remote, maker, kind):
    device = getattr(remote, maker)(1)
    assert (device.device_type, device.device_id) == (kind, 1)
    with pytest.raises(DeviceError):
        nd.empty((1,), "float32", device)


def test_functions_that_calls_return(remote):
    """They stay on the box: each is called there, and freed with its last user here."""
    adders = [remote.get_function("rpc.test.add_to_lhs")(x) for x in (10, 20)]
    assert [add(12) for add in adders] == [22, 32]
    assert adders[0].submit(1).result() == 11
    gone = adders[0]._module.handle
    del adders[0]
    assert adders[0](1) == 21  # what is freed is told with the next request
    with pytest.raises(HandleError, match=f"no module {gone}"):
        remote.request(Call(gone, RETURNED_FUNCTION, (1,)))
    with pytest.raises(RPCError, match="TypeError"):
        adders[0]("text")


def test_arrays_that_calls_return(remote):
    """They stay on the box, and can be read, copied to and passed on."""
    uses = remote.get_function("rpc.test.remote_return_nd")
    get = uses("get_arr")
    first = get()
    assert (first.shape, first.dtype, first.device) == ((10,), "float32", remote.cpu())
    first.copyfrom(np.arange(10, dtype="float32"))
    assert get().numpy().tolist() == list(range(10))
    assert uses("get_arr_elem")(first, 3) == 3
    assert uses("get_elem")(3) == 0  # of an array of its own
    assert get.submit().result().numpy()[9] == 9


def test_what_a_call_returned_is_given_back_with_its_last_user_here(remote):
    uses = remote.get_function("rpc.test.remote_return_nd")
    count = uses("ref_count")
    before = count()
    assert count() == before
    held = uses("get_arr")()
    gone = held.handle
    del held
    uses("get_arr")
    with pytest.raises(HandleError, match=f"no array {gone}"):
        remote.request(ReadMemory(gone, 0, 4))


def test_functions_of_this_process_cannot_be_passed(remote):
    with pytest.raises(ValueError, match=r"argument 0 is a builtins\.function, which cannot be passed"):
        remote.get_function("rpc.test.addone")(lambda x: x)


def test_functions_that_only_this_process_has(remote):
    @register_func("test_local.double")
    def double(values, factor):
        values.copyfrom(values.numpy() * factor)
        return float(values.numpy().sum())

    try:
        there = nd.array(np.arange(3, dtype="float32"), remote.cpu())
        assert remote.get_function("test_local.double")(there, 2) == 6
        assert there.numpy().tolist() == [0, 2, 4]
    finally:
        remove_global_func("test_local.double")
    for error in (RegistryError, AttributeError):
        with pytest.raises(error, match=r"no global function 'test_local\.double'"):
            remote.get_function("test_local.double")


def test_its_server_ends_with_it():
    session = rpc.LocalSession()
    session.close()
    assert not session.is_open


def test_what_tunefarm_has_not_is_refused():
    with pytest.raises(SessionRefused, match="minimal RPC"):
        rpc.with_minrpc(lambda *_: None, server="posix_popen_server")
