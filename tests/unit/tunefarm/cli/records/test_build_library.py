"""`tunefarm build --library`, `--lock`, `--locked` and `--cache-key`: kernels in one file, and builds that agree."""

from __future__ import annotations

import ctypes
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.errors import ArtifactError
from compiler.runtime.files.combined import combined
from tests.kit.cli.run import run_cli
from tests.kit.compiler.library import needs_cc
from tests.kit.web import running_app
from tunefarm import nd, runtime
from tuner.records.store import RecordStore
from tuner.task import TuningTask

ONE, TWO = "matmul:4,4,4:float32", "copy:8:float32"
SCALE = "static float twice(float x) { return 2 * x; }\nvoid scale(float* y) { y[0] = twice(N); }"
OWN = f"""
workloads = ["{ONE}", "{TWO}"]
[[kernel]]
name = "scale"
source = "scale.c"
entry = "scale"
compiler = "cc"
reference = {{ N = 2 }}
args = [{{ name = "y", dtype = "float32", shape = [1], output = true }}]
[kernel.space]
N = [1, 2]
"""
Built = Callable[..., str]


@pytest.fixture
def build(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Built]:
    """Runs `tunefarm build kernels.toml ...` with an empty store and gives what it printed."""
    (tmp_path / "scale.c").write_text(SCALE)
    (tmp_path / "kernels.toml").write_text(OWN)
    with RecordStore.open(tmp_path / "records.db", create=True) as store, running_app(store) as api:

        def run(*words: str, code: int = 0) -> str:
            outcome = run_cli(capfd, "build", str(tmp_path / "kernels.toml"), "--api", api, *words)
            assert outcome.code == code, outcome
            return outcome.text

        yield run


@needs_cc
def test_one_library_has_all_kernels(build: Built, tmp_path: Path) -> None:
    formats = [word for form in ("so", "header", "tunefarm", "tar") for word in ("--format", form)]
    reports = json.loads(build("--library", "mine", "--out", str(tmp_path), *formats, "--json"))
    names = ["matmul_4_4_4_float32", "copy_8_float32", "scale"]
    assert [report["function"] for report in reports] == names
    files = [str(tmp_path / f"mine.{end}") for end in ("so", "h", "tunefarm", "tar")]
    assert [report["files"] for report in reports] == [files] * 3
    declared = (tmp_path / "mine.h").read_text()
    assert all(f"void {name}(" in declared for name in names)
    y = np.zeros(1, np.float32)
    ctypes.CDLL(files[0]).scale(ctypes.c_void_p(y.ctypes.data))
    assert y[0] == 4
    rng = np.random.default_rng(0)
    a, b = (rng.random((4, 4), np.float32) for _ in range(2))
    for file in (files[0], files[2], files[3]):
        module = runtime.load_module(file)
        c, copy = nd.empty((4, 4)), nd.empty((8,))
        module["matmul_4_4_4_float32"](nd.array(a), nd.array(b), c)
        module["copy_8_float32"](nd.array(a.ravel()[:8]), copy)
        module["scale"](out := nd.empty((1,)))
        np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)
        np.testing.assert_array_equal(copy.numpy(), a.ravel()[:8])
        assert out.numpy()[0] == 4
    with tarfile.open(files[3]) as tar:
        assert len(tar.getnames()) == 3


def test_what_cannot_be_one_library_is_refused(build: Built, tmp_path: Path) -> None:
    task = TuningTask.from_spec(TWO, "llvm")
    made = compile_artifact(task.func, task.target, name="copy")
    with pytest.raises(ArtifactError, match="two kernels define copy"):
        combined([made, made])
    with pytest.raises(ArtifactError, match="has no object code"):
        combined([Artifact(made.target, (), (), {})])
    with pytest.raises(ArtifactError, match="for one target"):
        combined([made, Artifact("llvm -mcpu=x86-64", (), (), {})])
    assert "needs --out" in build("--library", "mine", code=2)
    assert "letters, digits" in build("--library", "../mine", "--out", str(tmp_path), code=2)


def test_a_lock_holds_kernels_configs_and_code(build: Built, tmp_path: Path) -> None:
    lock = tmp_path / "kernels.lock"
    build("--lock", str(lock))
    data = json.loads(lock.read_text())
    assert [kernel["how"] for kernel in data["kernels"]] == ["untuned"] * 3
    build("--locked", str(lock), "--out", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").iterdir())) == 3

    def refused(change: Callable[[dict], object]) -> str:
        changed = json.loads(json.dumps(data))
        change(changed)
        (tmp_path / "other.lock").write_text(json.dumps(changed))
        said = build("--locked", str(tmp_path / "other.lock"), "--out", str(tmp_path / "none"), code=4)
        assert not (tmp_path / "none").exists()
        return said

    kernels = data["kernels"]
    assert f"{ONE} has another config: untuned, was 0a0a" in refused(lambda d: d["kernels"][0].update(config="0a0a"))
    assert f"{TWO} became other code: {kernels[1]['artifact'][:12]}" in refused(
        lambda d: d["kernels"][1].update(artifact="0b0b")
    )
    assert "scale is new" in refused(lambda d: d["kernels"].pop())
    assert "the target is" in refused(lambda d: d.update(target="llvm"))
    assert "gone is not built any more" in refused(
        lambda d: d["kernels"].append({**kernels[0], "kernel": "gone", "function": "gone"})
    )
    (tmp_path / "scale.c").write_text(SCALE + "\n/* another file */")
    assert "scale computes something else" in build("--locked", str(lock), code=4)
    lock.write_text('{"tunefarm_lock": 1}')
    assert "is no lock" in build("--locked", str(lock), code=1)
    assert "--lock" in build("--locked", str(tmp_path / "nowhere"), code=1)


def test_a_cache_key_changes_with_what_decides_the_files(build: Built, tmp_path: Path) -> None:
    first = build("--cache-key").strip()
    assert len(first) == 64
    assert build("--cache-key").strip() == first
    found = {first, build("--cache-key", "--format", "so").strip(), build("--cache-key", "--target", "llvm").strip()}
    (tmp_path / "scale.c").write_text(SCALE + "\n")
    found.add(build("--cache-key").strip())
    assert len(found) == 4
    assert not list(tmp_path.glob("*.tunefarm"))


def test_the_web_app_tunes_no_kernels_of_files(build: Built) -> None:
    assert "by name only, not scale" in build("--tune-missing", code=3)
