"""Disco sessions whose workers are boxes: the model and its arrays stay there, and a lost box is named."""

import os
import runpy
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.client.disco import FarmSession
from rpc_server.errors import SessionClosed
from tests.kit.docs_pages import ROOT
from tunefarm import relax
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op
from tunefarm.runtime.disco import DiscoError


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(port=0, sessions=2, warm=2) as running:
        yield running


@pytest.fixture
def remotes(server: Server) -> Any:
    return [open_session("127.0.0.1", server.port, wait_s=60) for _ in range(2)]


def test_boxes_compute_a_transformer_layer(remotes: Any) -> None:
    layer = runpy.run_path(str(ROOT / "examples" / "split_layer.py"))
    rng = np.random.default_rng(3)
    x, weights = rng.standard_normal((3, 8), dtype="float32"), layer["weights"](rng)
    with FarmSession(remotes) as session:
        np.testing.assert_allclose(
            layer["run"](session, x, weights), layer["expected"](x, weights), rtol=1e-4, atol=1e-5
        )


def _half(path: Path) -> str:
    """x @ w of a part of the columns of x and of the rows of w: the parts add up to the product."""
    bb = BlockBuilder()
    x, w = (Var(name, TensorStructInfo(shape, "float32")) for name, shape in (("x", (3, 4)), ("w", (4, 5))))
    with bb.function("main", [x, w]):
        bb.emit_func_output(bb.emit(op.matmul(x, w)))
    relax.build(bb.get(), "llvm").export_library(str(path))
    return str(path)


def test_boxes_share_a_product(remotes: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.random((3, 8), dtype="float32"), rng.random((8, 5), dtype="float32")
    with FarmSession(remotes) as session:
        module = session.load_vm_module(_half(tmp_path / "half.tunefarm"), tvm.cpu())
        part = module["main"](session.scatter(np.stack(np.split(x, 2, 1))), session.scatter(np.stack(np.split(w, 2))))
        total = session.allreduce(part, session.empty((3, 5), "float32"))
        for at, remote in enumerate(remotes):
            np.testing.assert_allclose(total.debug_get_from_remote(at).numpy(), x @ w, rtol=1e-5)
            assert remote.executor_pid != os.getpid()
    for remote in remotes:
        with pytest.raises(SessionClosed):
            remote.upload(b"", "x")


def test_a_lost_box_is_named(remotes: Any) -> None:
    with pytest.raises(ArgumentError, match="share one session"):
        FarmSession([remotes[0], remotes[0]])
    with FarmSession(remotes) as session:
        held = session.empty((4,), "float32")
        session.sync_all()
        os.kill(remotes[1].executor_pid, signal.SIGKILL)
        session.allreduce(held, held, in_group=False)
        with pytest.raises(DiscoError, match=r"worker 1 failed: (ExecutorCrashed|SessionClosed)"):
            session.sync_worker_0()
