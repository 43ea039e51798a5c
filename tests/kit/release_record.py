"""Record what a release writes, so that later ones can be tested with it: an artifact, a model, a store, messages.

    python -P tests/kit/release_record.py tests/data/releases/VERSION

Run it in a checkout of the release, with that checkout first on PYTHONPATH. It needs nothing but the release itself:
names that only some releases have are looked up when it runs.
"""

from __future__ import annotations

import base64
import importlib
import json
import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TARGET = "llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu"
WORKLOAD = "matmul:16,16,16:float32"
MODEL = "small"
_LARGEST = 4096
"""Bytes of a message that is kept whole; larger ones, with artifacts in them, are left out."""


def first(*names: str) -> Any:
    """The first of several `module:attribute` that this release has."""
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError):
            continue
    return None


def kernel(folder: Path) -> None:
    """A kernel that doubles 64 numbers and adds one."""
    import tunefarm as tvm
    from tunefarm import te

    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0 + 1.0, name="B")
    schedule = te.create_schedule(b.op)
    tvm.build(schedule, [a, b], target=TARGET, name="scale").save(str(folder / "kernel.tunefarm"))


def model(folder: Path) -> None:
    """A small residual network; releases before graphs have none."""
    write_sample = first("compiler.frontend.onnx.sample:write_sample")
    read = first("compiler.frontend.model_files:read_model_file")
    if write_sample is None or read is None:
        return
    from tunefarm import relax

    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "small.onnx"
        write_sample(path, channels=2)
        built = relax.build(read(str(path)).module, TARGET, exec_mode="compiled")
        built.export_library(str(folder / "model.tunefarm"))


def store(folder: Path) -> None:
    """A record store with a tuned kernel, and with a model that was tuned, timed and profiled where there are such."""
    write_sample = first("compiler.frontend.onnx.sample:write_sample")
    with tempfile.TemporaryDirectory() as made:
        path, small = Path(made) / "records.db", Path(made) / f"{MODEL}.onnx"

        def run(*words: str) -> None:
            command = [sys.executable, "-m", "tunefarm", *words, "--db", str(path)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ)

        run("tune", WORKLOAD, "--trials", "3", "--quiet")
        if write_sample is not None:
            write_sample(small, channels=2)
            run("tune", str(small), "--trials", "1", "--quiet")
            run("run", str(small), "--record", "--profile")
        (folder / "store.db.xz").write_bytes(lzma.compress(path.read_bytes()))


def messages(folder: Path) -> None:
    """Return what a client, a tracker and a box said to each other, as (codec, frames) in order."""
    codec_class = first("rpc_server.wire.codec:Codec", "rpc_server.wire:Codec")
    public = first("rpc_server.wire.messages:public_codec", "rpc_server.messages:public_codec")
    place = (
        "rpc_server.wire.tracker_messages" if first("rpc_server.wire.codec:Codec") else "rpc_server.tracker_messages"
    )
    named = {id(public): "public"}
    for name in ("to_tracker", "to_box", "to_client", "from_tracker"):
        named[id(first(f"{place}:{name}"))] = name
    said: list[dict[str, Any]] = []

    def keep(codec: Any, frames: Any) -> None:
        name, whole = named.get(id(codec), ""), [bytes(frame) for frame in frames]
        if name and sum(map(len, whole)) <= _LARGEST:
            said.append({"codec": name, "frames": [base64.b64encode(frame).decode() for frame in whole]})

    encode, decode = codec_class.encode, codec_class.decode

    def recorded_encode(self: Any, *args: Any, **kwargs: Any) -> Any:
        frames = encode(self, *args, **kwargs)
        keep(self, frames)
        return frames

    def recorded_decode(self: Any, frames: Any) -> Any:
        message = decode(self, frames)  # errors raise: they are not kept
        keep(self, frames)
        return message

    codec_class.encode, codec_class.decode = recorded_encode, recorded_decode
    body_alone = getattr(codec_class, "decode_body", None)  # releases that have it read some messages by it
    if body_alone is not None:
        module = importlib.import_module("rpc_server.wire.codec")
        header = module.pack_header(module.MessageKind.REPLY)

        def recorded_body(self: Any, frame: Any) -> Any:
            body = body_alone(self, frame)
            keep(self, [header, frame])
            return body

        codec_class.decode_body = recorded_body
    try:
        _converse(folder)
    finally:
        codec_class.encode, codec_class.decode = encode, decode
        if body_alone is not None:
            codec_class.decode_body = body_alone
    unique: dict[str, dict[str, Any]] = {}
    for message in said:  # a body that was read with its header comes after the body alone
        unique[json.dumps(message["frames"][1:2]) + message["codec"]] = message
    text = "\n".join(json.dumps(message) for message in unique.values())
    (folder / "messages.jsonl.xz").write_bytes(lzma.compress(text.encode()))


def _converse(folder: Path) -> None:
    import numpy as np

    import tunefarm as tvm

    server_class = first("rpc_server.box.server:Server", "rpc_server.server:Server")
    tracker_class = first("tracker.server:Tracker")
    with tracker_class("127.0.0.1", port=0, silent=True) as tracker:
        address = ("127.0.0.1", tracker.port)
        with server_class("127.0.0.1", port=0, silent=True, tracker_addr=address, key="cpu"):
            session = first("tracker.client:connect_tracker")(*address)
            with session, session.request("cpu") as remote:
                remote.upload(str(folder / "kernel.tunefarm"))
                loaded, device = remote.load_module("kernel.tunefarm"), remote.cpu()
                x = np.arange(64, dtype="float32")
                a, b = tvm.nd.array(x, device), tvm.nd.empty((64,), "float32", device)
                loaded(a, b)
                np.testing.assert_allclose(b.numpy(), 2 * x + 1)
                loaded.time_evaluator("scale", device, number=2, repeat=2)(a, b)
                session.devices()
                session.queue()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (kernel, model, store, messages):
        make(folder)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>8} {path}")


if __name__ == "__main__":
    main()
