"""Kernels in C of several files, compared with a function of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.errors import ArgumentError
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from tests.kit.compiler.library import needs_cc
from tuner.kernels.csource import Argument
from tuner.kernels.jobs import read_job
from tuner.kernels.kernel import CKernel, kernel_search
from tuner.kernels.python_source import PythonSource
from tuner.kernels.spec import SpecError

KERNELS = """
[[kernel]]
name = "scale"
source = ["scale.c", "scale_part.c"]
entry = "scale"
compiler = "cc -O1"
reference = { N = 4, F = 2.0 }
args = [{ name = "x", dtype = "float32", shape = [4] }, { name = "y", dtype = "float32", shape = [4], output = true }]
[kernel.space]
N = [4]
F = [2.0, 0.5]
[kernel.baseline]
source = "plain.c"
entry = "plain"
compiler = "cc -O1"
"""
FILES = {
    "scale.c": '#include "n.h"\nvoid part(const float*, float*); void scale(const float* x, float* y) { part(x, y); }',
    "scale_part.c": '#include "n.h"\n'
    "void part(const float* x, float* y) { for (int i = 0; i < N; i++) *y++ = TWICE(*x++); }",
    "n.h": "#define TWICE(v) ((float)F * v)\n",
    "wrong.py": "def plain(x, y):\n",
    "other.py": "def other(x, y): ...\n",
    "plain.c": "void plain(const float* x, float* y) { for (int i = 0; i < 4; i++) y[i] = x[i] + x[i]; }",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {**FILES, "k.toml": KERNELS}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@needs_cc
def test_both_are_compiled_and_agree(folder: Path) -> None:
    [item] = read_job([str(folder / "k.toml")]).items
    assert isinstance(item.what, CKernel)
    search = kernel_search(item.what, "llvm", "random")
    made = item.what.source_code.compile(item.what.reference, "llvm")
    assert len(made.linked) == 1
    rival = search.source(None).make()  # type: ignore[union-attr]
    assert rival.entries[0].symbol == "plain"
    for artifact in (made, rival):
        x, y = array(np.arange(4, dtype="float32")), empty((4,))
        load_artifact(artifact)["main"](x, y)
        np.testing.assert_array_equal(y.numpy(), [0, 2, 4, 6])
    assert item.what.source_code.command({"N": 4}, "llvm")[-2:] == ["scale.c", "scale_part.c"]


@pytest.mark.parametrize(
    "body", ["return x + x", "y[:] = 2 * x", "import numpy as np\n    np.add(x, x, out=y)", "return (2 * x,)"]
)
def test_a_baseline_of_numpy(folder: Path, body: str) -> None:
    (folder / "plain.py").write_text(f"def plain(x, y):\n    {body}\n")
    in_python = KERNELS.replace('"plain.c"', '"plain.py"').rpartition("compiler")[0] + 'name = "numpy"\n'
    (folder / "k.toml").write_text(in_python)
    [item] = read_job([str(folder / "k.toml")]).items
    assert isinstance(item.what, CKernel)
    search = kernel_search(item.what, "llvm", "random")
    assert search.task.baseline == "numpy"
    artifact = Artifact.from_bytes(search.source(None).make().to_bytes())  # type: ignore[union-attr]
    x, y = array(np.arange(4, dtype="float32")), empty((4,))
    module = load_artifact(artifact)
    module["main"](x, y)
    np.testing.assert_array_equal(y.numpy(), [0, 2, 4, 6])
    assert module.time_evaluator("main", cpu(), number=2)(x, y).mean > 0
    with pytest.raises(ArgumentError):
        module["main"](x, empty((5,)))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return x[:2]", r"plain raised ValueError: it returned the shape \(2,\), not \(4,\)"),
        ("return (x, x)", "it returned 2 results, not 1"),
        ("return 1j * x", "plain raised .*[Cc]annot cast"),
        ("import no_such_module", "plain raised ModuleNotFoundError"),
    ],
)
def test_what_a_baseline_in_python_does_wrong(folder: Path, body: str, said: str) -> None:
    arguments = (Argument("x", "float32", (4,)), Argument("y", "float32", (4,), output=True))
    made = PythonSource(f"def plain(x, y):\n    {body}\n", "plain", arguments).compile({}, "llvm")
    with pytest.raises(KernelError, match=said):
        load_artifact(made)["main"](array(np.arange(4, dtype="float32")), empty((4,)))


def test_each_file_counts_for_resuming_and_for_the_key(folder: Path) -> None:
    found = []
    for name in ("scale.c", "scale_part.c", "n.h", "plain.c"):
        (folder / name).write_text(FILES[name] + "\n")
        [item] = read_job([str(folder / "k.toml")]).items
        assert isinstance(item.what, CKernel)
        found.append((item.record["digest"], kernel_search(item.what, "llvm", "random").task.key))
    assert len({digest for digest, _ in found}) == 4
    assert len({key for _, key in found}) == 3  # a baseline changes no key: it is none of the kernel's code


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["scale.c", "scale_part.c"]', '["scale.c", "../x.c"]', "of one folder"),
        ('["scale.c", "scale_part.c"]', "[]", "a list of files"),
        ('["scale.c", "scale_part.c"]', '["scale.c", "none.c"]', "can't be read"),
        ('entry = "plain"\n', "", "lacks 'entry'"),
        ('entry = "plain"', 'entry = "plain"\nflags = 1', "has no 'flags'"),
        ('entry = "plain"', 'entry = "plain"\nname = ""', "is no name"),
        ('source = "plain.c"', 'source = "wrong.py"', "which has no compiler"),
        (
            'source = "plain.c"\nentry = "plain"\ncompiler',
            'source = "wrong.py"\nentry = "plain"\n#',
            "not Python: line",
        ),
        (
            'source = "plain.c"\nentry = "plain"\ncompiler',
            'source = "other.py"\nentry = "plain"\n#',
            "no function 'plain'",
        ),
    ],
)
def test_what_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    (folder / "k.toml").write_text(KERNELS.replace(old, new))
    with pytest.raises(SpecError, match=said):
        read_job([str(folder / "k.toml")])
