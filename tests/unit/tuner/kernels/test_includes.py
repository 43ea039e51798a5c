"""C source that includes files of its own: they go along to where it is compiled."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from compiler.artifact import Artifact
from compiler.target.target import Target
from tuner.build.worker import BuildRequest, build
from tuner.errors import TuningError
from tuner.kernels.includes import lay_out, local_headers
from tuner.kernels.jobs import read_job, recorded_items
from tuner.kernels.spec import SpecError

TARGET = str(Target.host())
FILES = {
    "kernels/scale.c": '#include <math.h>\n#include "factor.h"\n#include "../common/loop.h"\n  # include "absent.h"\n',
    "kernels/factor.h": '#pragma once\n#include "deep/value.h"\n#define FACTOR VALUE\n',
    "kernels/deep/value.h": '#pragma once\n#include "../factor.h"\n#define VALUE 3\n',  # each includes the other
    "common/loop.h": "#define LOOP(i) for (int i = 0; i < 64; ++i)\n",
}
CODE = "void scale(const float* x, float* out) { LOOP(i) out[i] = UNROLL * FACTOR * x[i]; }\n"
TOML = """
[[kernel]]
name = "scale"
source = "kernels/scale.c"
entry = "scale"
compiler = "cc -O1"
args = [{ name = "x", dtype = "float32", shape = [64] },
        { name = "out", dtype = "float32", shape = [64], output = true }]
reference = { UNROLL = 1 }

[kernel.space]
UNROLL = [1, 2]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "kernels" / "scale.c").write_text(FILES["kernels/scale.c"].partition("  # include")[0] + CODE)
    (tmp_path / "kernels.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_that_is_included_is_found_once_by_its_path(folder):
    found = dict(local_headers(FILES["kernels/scale.c"], folder / "kernels"))
    assert found == {
        "../common/loop.h": FILES["common/loop.h"],
        "deep/value.h": FILES["kernels/deep/value.h"],
        "factor.h": FILES["kernels/factor.h"],
    }


def test_the_source_is_compiled_where_none_of_its_files_are(folder):
    """Another machine is like this: all a build worker has is the request."""
    [item] = read_job(["kernels.toml"]).items
    request = pickle.dumps(BuildRequest(item.what.source(Target(TARGET), {"UNROLL": 2}), TARGET))
    shutil.rmtree(folder / "kernels")
    shutil.rmtree(folder / "common")
    result = build(pickle.loads(request))
    assert result.artifact is not None, result.text
    assert Artifact.from_bytes(result.artifact).entries[0].symbol == "scale"


@pytest.mark.parametrize("changed", ["kernels/deep/value.h", "common/loop.h"])
def test_an_included_file_is_part_of_what_is_tuned(folder, changed):
    kept = [item.record for item in read_job(["kernels.toml"]).items]
    before = read_job(["kernels.toml"]).items[0].what.task(Target(TARGET)).key
    assert recorded_items(kept)[0].what.task(Target(TARGET)).key == before
    (folder / changed).write_text((folder / changed).read_text() + "// new\n")
    assert read_job(["kernels.toml"]).items[0].what.task(Target(TARGET)).key != before
    with pytest.raises(SpecError, match="has changed since the run began"):
        recorded_items(kept)


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "x.h").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TuningError, match=r"x\.h, which the source includes, can't be read"):
        local_headers('#include "x.h"\n', tmp_path)


def test_nothing_is_written_outside_the_build(tmp_path):
    with pytest.raises(TuningError, match="no path from a source's folder"):
        lay_out([("/etc/x.h", "")], tmp_path / "build")
    assert lay_out([("a/../../x.h", "")], tmp_path / "build") == tmp_path / "build" / "down" / "down"
    assert (tmp_path / "build" / "down" / "x.h").is_file()
