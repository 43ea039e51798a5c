"""A farm of the programs that Apache TVM has (`python -m tunefarm.exec.…`), and a script written for TVM on it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tunefarm as tvm
from tests.kit.cli.farm import until
from tests.kit.ports import free_port
from tunefarm import rpc, te


@contextlib.contextmanager
def program(name: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-m", f"tunefarm.exec.{name}", *flags]) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def queried(port: int) -> str:
    command = [sys.executable, "-m", "tunefarm.exec.query_rpc_tracker", "--host=127.0.0.1", f"--port={port}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout


def test_a_farm_of_tvm_s_programs(tmp_path: Path) -> None:
    port = free_port()
    tracker = program("rpc_tracker", "--host=127.0.0.1", f"--port={port}", f"--port-end={port + 1}")
    server = program("rpc_server", "--host=127.0.0.1", f"--tracker=127.0.0.1:{port}", "--key=board", "--no-fork")
    with tracker, server:
        until(lambda: "board" in queried(port), patience=300)
        a = te.placeholder((64,), name="A")
        b = te.compute(a.shape, lambda i: a[i] + 1.0, name="B")
        library = tmp_path / "added.tar"
        tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="added").export_library(str(library))
        remote = rpc.connect_tracker("127.0.0.1", port).request("board", priority=1, session_timeout=60)
        remote.upload(str(library))
        added = remote.load_module("added.tar")
        device = remote.cpu(0)
        given = tvm.nd.array(np.arange(64, dtype="float32"), device)
        found = tvm.nd.array(np.zeros(64, "float32"), device)
        added["added"](given, found)
        np.testing.assert_array_equal(found.numpy(), np.arange(64) + 1.0)
        assert added.time_evaluator("added", device, number=3)(given, found).mean > 0
