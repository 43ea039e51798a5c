"""Files of earlier releases are read, or refused by version with the command to run.

`tests/data/releases` holds a folder a release, which `tests/kit/release_record.py` made with that release.
"""

from __future__ import annotations

import base64
import json
import lzma
import platform
import struct
from pathlib import Path

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArtifactError
from compiler.runtime.vm.machine import VirtualMachine
from rpc_server.errors import ProtocolError
from rpc_server.wire import messages, tracker_messages
from rpc_server.wire.codec import HEADER_SIZE, Codec
from tests.kit.places import TESTS
from tests.kit.release_record import MODEL, WORKLOAD
from tuner.kernels.coverage import coverage_of
from tuner.records.db import migrate
from tuner.records.errors import SchemaMismatch
from tuner.records.store import RecordStore
from tuner.task import TuningTask

RELEASES = sorted(path for path in (TESTS / "data" / "releases").iterdir() if path.is_dir())
CODECS: dict[str, Codec] = {
    "public": messages.public_codec,
    "to_tracker": tracker_messages.to_tracker,
    "to_box": tracker_messages.to_box,
    "to_client": tracker_messages.to_client,
    "from_tracker": tracker_messages.from_tracker,
}
VERSION_AT = 4
"""Byte of a message's header, after the magic bytes."""

each_release = pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
runs_here = pytest.mark.skipif(platform.machine() != "x86_64", reason="artifacts of releases are for x86-64")


@runs_here
@each_release
def test_a_kernel_of_a_release_runs(release: Path) -> None:
    scale = tvm.runtime.load_module(str(release / "kernel.tunefarm"))
    x = np.arange(64, dtype="float32")
    a, b = tvm.nd.array(x), tvm.nd.empty((64,), "float32")
    scale(a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * x + 1)


@runs_here
@each_release
def test_a_model_of_a_release_runs(release: Path) -> None:
    path = release / "model.tunefarm"
    if not path.exists():
        pytest.skip("this release had no models")
    machine = VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    image = tvm.nd.array(np.ones((1, 3, 64, 64), "float32"))
    scores = machine["main"](image).numpy()
    assert scores.shape == (1, 10)
    assert np.isfinite(scores).all()
    assert scores.std() > 0


@pytest.mark.parametrize("name", ["kernel.tunefarm", "model.tunefarm"])
def test_a_file_of_another_format_is_refused_by_its_version(name: str, tmp_path: Path) -> None:
    data = bytearray((RELEASES[-1] / name).read_bytes())
    struct.pack_into("<I", data, 8, 99)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ArtifactError, match="format version 99") as refused:
        tvm.runtime.load_module(str(tmp_path / name))
    assert "tunefarm build" in str(refused.value.hint)


def upgraded(release: Path, folder: Path) -> Path:
    """The release's store, as this one opens it."""
    path = folder / "records.db"
    path.write_bytes(lzma.decompress((release / "store.db.xz").read_bytes()))
    if not migrate.check(path).ok:
        with pytest.raises(SchemaMismatch) as refused:
            RecordStore.open(path)
        assert "tunefarm db upgrade" in str(refused.value.hint)
        migrate.upgrade(path)
    return path


@each_release
def test_a_store_of_a_release_is_upgraded_and_serves_its_config(release: Path, tmp_path: Path) -> None:
    with RecordStore.open(upgraded(release, tmp_path)) as store:
        first = store.runs.newest()[-1]
        assert first.trials == 3
        (best,) = store.best.page(workload=first.tasks[0].workload.key)
        found = store.best.look_up(TuningTask.from_spec(WORKLOAD, best.target).key, best.target, best.device_class)
        assert found.config is not None
        assert found.config.cost == best.cost


@each_release
def test_a_model_in_the_store_of_a_release_keeps_its_kernels_times_and_profile(release: Path, tmp_path: Path) -> None:
    with RecordStore.open(upgraded(release, tmp_path)) as store:
        if not store.models.page():
            pytest.skip("no model was in this release's store")
        model = store.models.find(MODEL)
        version = store.models.version_of(model.id)
        [run] = store.models.runs(version.id)
        [time] = store.models.times(model.id)
        tasks = store.models.tasks(version.id, "llvm")
        assert store.runs.get(run).trials >= len(tasks) > 3
        assert {share.name for share in store.models.profile(time.id)} >= {name for t in tasks for name in t.names}
        coverage = coverage_of(store, version, time.target, time.device_class, "llvm")
        assert coverage.tuned == len(tasks)
        assert len(store.models.graph(version.id)) >= len(tasks)


def said(release: Path) -> list[tuple[Codec, list[bytes]]]:
    if not (release / "messages.jsonl.xz").exists():
        pytest.skip("no messages of this release were kept")
    text = lzma.decompress((release / "messages.jsonl.xz").read_bytes()).decode()
    rows = [json.loads(line) for line in text.splitlines()]
    return [(CODECS[row["codec"]], [base64.b64decode(frame) for frame in row["frames"]]) for row in rows]


@each_release
def test_messages_of_a_release_are_understood(release: Path) -> None:
    found = [type(codec.decode(frames).body).__name__ for codec, frames in said(release)]
    assert {"RequestDevice", "Granted", "Call"} <= set(found)
    assert len(set(found)) > 15


@each_release
def test_a_peer_of_another_protocol_is_told_what_to_install(release: Path) -> None:
    codec, frames = said(release)[0]
    header = bytearray(frames[0])
    assert len(header) == HEADER_SIZE
    header[VERSION_AT] = 9
    with pytest.raises(ProtocolError, match="protocol version 9") as refused:
        codec.decode([bytes(header), *frames[1:]])
    assert "pip install --upgrade tunefarm" in str(refused.value.hint)
