"""`tunefarm build` against a web app: hits and misses, the coverage gate, and releases that builds pin."""

from __future__ import annotations

import ctypes
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.errors import ArtifactError, TunefarmError
from compiler.runtime.files.header import header
from compiler.target.target import Target
from rpc_server.wire.trial_messages import MeasureResult
from tests.kit.cli.run import run_cli
from tests.kit.compiler.library import needs_cc
from tests.kit.places import ROOT
from tests.kit.web import running_app
from tunefarm import nd, runtime
from tunefarm.client import Client
from tuner.devices.supplies import local_target
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_search
from tuner.engine.replay import ReplayBuilder, ReplayFleet
from tuner.errors import WorkloadError
from tuner.records.errors import RecordNotFound
from tuner.records.store import RecordStore
from tuner.task import TuningTask

TUNED, OTHER = "matmul:16,16,16:float32", "softmax:8,32:float32"


def tune_made_up(store: RecordStore, seed: int = 0, speed: float = 1.0, untuned: float = 5e-3) -> None:
    """Real candidates of `TUNED` for this machine, with times that are made up."""

    def answer(name: str) -> MeasureResult:
        cost = untuned if name == "untuned" else 1e-3 * (1 + int(name[:6], 16) / (1 << 24)) / speed
        return MeasureResult(costs=(cost, cost, cost))

    searches = [sketch_search(TuningTask.from_spec(TUNED, local_target()), "random", seed)]
    options = RunOptions(trials=8, finalists=0)
    tune(searches, fleet=ReplayFleet(answer, 1, 0.0), builder=ReplayBuilder(), options=options, store=store)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore.open(tmp_path / "records.db", create=True) as opened:
        tune_made_up(opened)
        yield opened


@pytest.fixture
def api(store: RecordStore) -> Iterator[str]:
    with running_app(store) as address:
        yield address


Typed = Callable[..., str]


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str], store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Runs a command line on the store and gives what it printed."""
    monkeypatch.setenv("TUNEFARM_DB", store.address)

    def run(*words: str, code: int = 0) -> str:
        outcome = run_cli(capfd, *words)
        assert outcome.code == code, outcome
        return outcome.out + outcome.err

    return run


def test_the_coverage_gate_lists_what_nobody_tuned(api: str, typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "build"
    refused = typed("build", TUNED, OTHER, "--api", api, "--require-tuned", "--out", str(out), code=3)
    assert "1 of 2 kernels has no config for llvm" in refused
    assert f"    {OTHER}: " in refused
    assert f"{TUNED}: " not in refused
    assert f"hint: tune them: tunefarm tune {OTHER}" in refused
    assert not out.exists(), "what is refused is not built"
    hit, miss = json.loads(typed("build", TUNED, OTHER, "--api", api, "--out", str(out), "--json"))
    assert [hit["config"], miss["config"]] == ["hit", "untuned"]
    assert miss["explain"]
    built = runtime.load_module(hit["artifact"])
    a, b = (np.random.default_rng(seed).random((16, 16), dtype="float32") for seed in range(2))
    c = nd.empty((16, 16), "float32")
    built(nd.array(a), nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def test_what_lost_to_the_function_as_written_is_built_as_written(tmp_path: Path, typed: Typed) -> None:
    with RecordStore.open(tmp_path / "slow.db", create=True) as slow:
        tune_made_up(slow, untuned=5e-4)
        with running_app(slow) as api:
            text = typed("build", TUNED, "--api", api, "--require-tuned")
            (told,) = json.loads(typed("build", TUNED, "--api", api, "--json"))
            reply = Client(api).best(TuningTask.from_spec(TUNED, local_target()).func, local_target())
    assert f"{TUNED}: as written" in text
    assert "the function as written is faster, 500 µs in run 1" in text
    plain = compile_artifact(
        TuningTask.from_spec(TUNED, local_target()).func, local_target(), "matmul_16_16_16_float32"
    )
    assert (told["config"], told["artifact_digest"]) == ("as written", plain.digest)
    assert (reply.match, reply.as_written, reply.tuned) == ("exact", True, True)
    assert reply.trace is not None


@needs_cc
@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_the_commands_of_workflow_files(
    system: str, api: str, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "deploy" / "ci" / f"{system}.yml").read_text()
    commands = [shlex.split(line) for line in re.findall(r"tunefarm build (kernels[^>)\n]*)", text)]
    assert len(commands) == 2
    (tmp_path / "kernels.toml").write_text(f'workloads = ["{TUNED}"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNEFARM_API", api)
    typed("release", "create", "2026.11")
    typed("release", "approve", "2026.11")
    values = {"$TARGET": local_target(), "$RELEASE": "2026.11"}
    key, report = (typed("build", *(values.get(word, word) for word in words)) for words in commands)
    assert len(key.strip()) == 64
    assert [built["config"] for built in json.loads(report)] == ["hit"]
    assert {file.name for file in (tmp_path / "build").iterdir()} == {"kernels.h", "kernels.so", "kernels.lock"}


def test_a_release_from_tuning_to_builds(api: str, typed: Typed, store: RecordStore, tmp_path: Path) -> None:
    build = ("build", TUNED, "--api", api, "--require-tuned", "--json", "--release", "1.0")
    assert "there is no release '1.0'" in typed(*build, code=1)
    assert "1 config," in typed("release", "create", "1.0", "--note", "first")
    assert "is not approved" in typed(*build, code=1)
    typed("release", "approve", "1.0")
    (pinned,) = json.loads(typed(*build))
    assert pinned["config"] == "hit"

    # what is best moves on, the release does not
    tune_made_up(store, seed=1, speed=10.0)
    typed("release", "create", "1.1")
    difference = typed("release", "diff", "1.0", "1.1")
    assert f"~ {TUNED} on " in difference
    assert difference.endswith("0 the same\n")
    (newest,) = json.loads(typed("build", TUNED, "--api", api, "--json"))
    assert newest["digest"] != pinned["digest"] == json.loads(typed(*build))[0]["digest"]
    refused = typed("build", TUNED, OTHER, "--api", api, "--require-tuned", "--release", "1.0", code=3)
    assert "in release 1.0:" in refused
    assert OTHER in refused

    # in one file, to another store, where it is approved anew
    file, other = tmp_path / "1.0.json", str(tmp_path / "other.db")
    typed("release", "export", "1.0", str(file))
    assert typed("release", "verify", str(file), "--db", store.address).endswith("intact\n")
    typed("db", "upgrade", "--db", other)
    typed("release", "import", str(file), "--db", other)
    with RecordStore.open(other) as opened, running_app(opened) as elsewhere:
        there = ("build", TUNED, "--api", elsewhere, "--release", "1.0", "--json")
        assert "not approved" in typed(*there, code=1)
        typed("release", "approve", "1.0", "--db", other)
        assert json.loads(typed(*there))[0]["digest"] == pinned["digest"]
        with Client(elsewhere) as client:
            task = TuningTask.from_spec(TUNED, local_target())
            reply = client.best(task.func, local_target(), release="1.0")
            assert (reply.digest, reply.tuned) == (pinned["digest"], True)
            assert not client.best(task.func, local_target()).hit, "a release brings no records with it"


def test_a_release_file_that_was_changed_is_told(typed: Typed, store: RecordStore, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    typed("release", "create", "1.0")
    typed("release", "export", "1.0", str(file))
    text = file.read_text()
    file.write_text(text.replace('"cost": ', '"cost": 1'))
    assert "digest" in typed("release", "verify", str(file), code=1)
    file.write_text(text[:100])
    assert "the file is no release" in typed("release", "verify", str(file), code=1)
    assert "cannot read" in typed("release", "verify", str(tmp_path / "none.json"), code=1)
    file.write_text(text)
    with RecordStore.open(tmp_path / "other.db", create=True) as other:
        tune_made_up(other, seed=3)
        other.releases.create("1.0")
    refused = typed("release", "verify", str(file), "--db", str(tmp_path / "other.db"), code=1)
    assert "release 1.0 of the store has digest" in refused


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "mine.h"
#include "softmax_8_32_float32.h"
static float *numbers(int n) {
  float *made = aligned_alloc(64, 4096);
  for (int i = 0; i < n; i++) made[i] = i % 3;
  return made;
}
int main(void) {
  tunefarm_set_threads(2);
  float *a = numbers(256), *b = numbers(256), *c = numbers(256), *x = numbers(256), *y = numbers(256);
  mine(a, b, c);
  softmax_8_32_float32(x, y);
  double wrong = 0, row = 0;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) {
      double sum = 0;
      for (int k = 0; k < 16; k++) sum += a[16 * i + k] * b[16 * k + j];
      wrong += abs((int)(1000 * (sum - c[16 * i + j])));
    }
  for (int i = 0; i < 32; i++) row += y[i];
  printf("%.0f %.3f", wrong, row);
  return 0;
}
"""


@needs_cc
@pytest.mark.parametrize("libraries", [1, 2])
def test_kernels_are_called_from_c_together(api: str, typed: Typed, tmp_path: Path, libraries: int) -> None:
    matmul = typed("build", TUNED, "--api", api, "--out", str(tmp_path), "--name", "mine", "--json")
    softmax = typed("build", OTHER, "--api", api, "--out", str(tmp_path), "--json")
    reports = [*json.loads(matmul), *json.loads(softmax)]
    assert [report["function"] for report in reports] == ["mine", "softmax_8_32_float32"]
    modules = [runtime.load_module(report["artifact"]) for report in reports]
    for module, report in zip(modules, reports, strict=True):
        assert module.get_function_list() == [report["function"]]
        module.save(str(tmp_path / f"{report['function']}.h"))
    addons = []
    if libraries == 1:
        addons = [str(tmp_path / "softmax.o")]
        modules[1].save(addons[0])
    for at, module in enumerate(modules[:libraries]):
        module.export_library(str(tmp_path / f"libkernels{at}.so"), addons=addons)
    (tmp_path / "program.c").write_text(PROGRAM)
    linked = [f"-lkernels{at}" for at in range(libraries)]
    command = ["gcc", "-std=c11", "-Wall", "program.c", "-L.", *linked, "-Wl,-rpath,$ORIGIN", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 1.000"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["main"], "the function that a C program starts with"),
        (["double"], "keyword of C"),
        (["tunefarm_set_threads"], "belong to the library"),
        (["2d"], "letters, digits and _"),
        (["a", "b"], "2 names for 1 workload"),
    ],
)
def test_names_that_c_cannot_call_are_refused(typed: Typed, names: list[str], said: str) -> None:
    words = [word for name in names for word in ("--name", name)]
    assert said in " ".join(typed("build", TUNED, *words, code=2).split())


def test_a_header_refuses_main() -> None:
    task = TuningTask.from_spec(TUNED, local_target())
    with pytest.raises(ArtifactError, match="cannot declare the kernel 'main'"):
        header(compile_artifact(task.func, task.target, name="main"))


def test_a_miss_is_reported_as_json(capfd, api: str, tmp_path: Path) -> None:
    words = ["build", TUNED, OTHER, "--api", api, "--require-tuned", "--json", "--out", str(tmp_path / "build")]
    outcome = run_cli(capfd, *words)
    assert outcome.code == 3
    hit, miss = json.loads(outcome.out)
    assert [hit["config"], miss["config"], miss["artifact"]] == ["hit", "untuned", None]
    assert miss["explain"]
    assert "1 of 2 kernels has no config" in outcome.err


def test_the_hint_of_a_miss_tunes_for_the_same_target(api: str, typed: Typed, store: RecordStore) -> None:
    target = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num-cores=3"
    refused = typed("build", OTHER, "--api", api, "--require-tuned", "--target", target, code=3)
    words = shlex.split(refused.partition("hint: tune them: ")[2])
    assert words[:4] == ["tunefarm", "tune", OTHER, "--target"]
    assert Target(words[4]) == Target(target)
    assert "or build for another target" not in refused
    refused = typed("build", OTHER, "--api", api, "--require-tuned", code=3)
    assert "or build for another target with --target: this is this machine's" in refused
    typed("release", "create", "r1")
    typed("release", "approve", "r1")
    refused = typed("build", OTHER, "--api", api, "--require-tuned", "--release", "r1", code=3)
    assert "hint: tune them, then make a release that has them: tunefarm tune" in refused


def test_a_file_of_workloads_is_built_like_it_is_tuned(api: str, typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(f'workloads = ["{TUNED}", "{OTHER}"]\n[run]\ntrials = 3\n')
    reports = json.loads(typed("build", str(tmp_path / "two.toml"), "--api", api, "--json"))
    assert [report["kernel"] for report in reports] == [TUNED, OTHER]


def test_a_kernel_in_c_is_compiled_as_its_reference_where_there_is_no_config(
    api: str, typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "scale.c").write_text("void scale(float* y) { y[0] = N; }")
    (tmp_path / "own.toml").write_text(
        '[[kernel]]\nname = "scale"\nsource = "scale.c"\nentry = "scale"\nreference = { N = 2 }\ncompiler = "cc"\n'
        'args = [{ name = "y", dtype = "float32", shape = [1], output = true }]\n[kernel.space]\nN = [1, 2]\n'
    )
    built = typed("build", str(tmp_path / "own.toml"), "--api", api, "--out", str(tmp_path), "--format", "so")
    assert "scale: untuned" in built
    y = np.zeros(1, np.float32)
    ctypes.CDLL(str(tmp_path / "scale.so")).scale(ctypes.c_void_p(y.ctypes.data))
    assert y[0] == 2


def test_the_client_takes_names_and_refuses_what_is_neither_name_nor_key(api: str) -> None:
    with Client(api) as client:
        assert client.best(TUNED).match == "exact"
        assert client.best(TuningTask.from_spec(TUNED, local_target()).key).match == "exact"
        for wrong in ("matmull:8,8,8", "0123abc"):
            with pytest.raises(WorkloadError):
                client.best(wrong)


def test_errors_of_the_web_app_come_without_a_prefix(api: str) -> None:
    with Client(api) as client, pytest.raises(RecordNotFound) as raised:
        client.run(9999)
    assert not str(raised.value).startswith("record_not_found")
    with Client(api) as client, pytest.raises(TunefarmError) as refused:
        client.get("/api/v1/nowhere")
    assert str(refused.value).startswith("there is no such page")
