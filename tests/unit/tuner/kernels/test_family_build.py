"""Families of kernels of one's own: what is built of a record, at measured sizes and at new ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.artifact import ArgSpec, EntryPoint
from compiler.runtime.core.code.cpu_function import KernelError
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.size_rule import Size
from compiler.target.target import Target
from tuner.devices.supplies import local_target
from tuner.families.build import fixed
from tuner.families.configs import FamilyConfig
from tuner.families.portfolio import TimeTable
from tuner.families.record import FamilyRecord, make_record
from tuner.families.sizes import FamilyError
from tuner.kernels.family_build import KernelMaker, general_arguments, maker_of
from tuner.search.base import Candidate

C_TEXT = """
int made_for = N;
float of(float x) { return FACTOR * x; }
int doubled(int number);
void scale(const float* x, float* out) {
  for (int i = 0; i < N; ++i) { out[2 * i] = of(x[i]); out[2 * i + 1] = doubled(N); }
}
"""
MORE_TEXT = """
extern int made_for;
float of(float x);
int doubled(int number) { return made_for == N ? (int)of(2 * number) / FACTOR : -1; }
"""
TOML = """
[[kernel]]
name = "scale"
source = ["scale.c", "more.c"]
entry = "scale"
compiler = "cc -O1"
args = [{ name = "x", dtype = "float32", shape = ["N"] },
        { name = "out", dtype = "float32", shape = ["2 * N"], output = true }]
reference = { FACTOR = 1 }
shapes = ["N=4,16"]
[kernel.space]
FACTOR = [1, 3]
"""
PYTHON = """
from tests.kit.tuner.kernel_families import doubled_kernel
from tuner.families.sizes import parse_shapes
from tuner.kernels.family_jobs import KernelFamily

twice = KernelFamily("twice", lambda at: doubled_kernel(at["N"]), parse_shapes(["N=16,64"]))
"""


def record_of(maker: KernelMaker, decisions: tuple[int, ...]) -> FamilyRecord:
    """A record of one config, with times that nobody measured."""
    sizes = maker.item.sizes
    kernels = [maker.family.kernel(size) for size in sizes.sizes]
    found = [Candidate(kernel.space.sketch(maker.name), decisions) for kernel in kernels]
    table = TimeTable(np.ones((1, len(kernels))))
    what, target = maker.item.record["family"], local_target()
    configs = [FamilyConfig.of(found[0])]
    traces = [candidate.trace_json for candidate in found]
    return make_record(maker.name, what, target, sizes, configs, table, 1, lambda _, at: traces[at], [1.0] * len(found))


def test_a_kernel_in_c(tmp_path: Path) -> None:
    """Its config's macros are in each size's kernel, with helpers of its own from two sources. Sizes that nobody tuned
    have none."""
    (tmp_path / "scale.c").write_text(C_TEXT)
    (tmp_path / "more.c").write_text(MORE_TEXT)
    (tmp_path / "kernels.toml").write_text(TOML)
    maker = maker_of(f"{tmp_path}/kernels.toml:scale")
    assert isinstance(maker, KernelMaker)
    assert maker_of(f"{tmp_path}/../{tmp_path.name}/kernels.toml").key == maker.key, "wherever the file lies"
    record = FamilyRecord.from_json(record_of(maker, (1, 0)).to_json())
    assert str(record.configs[0]) == "scale FACTOR=3"
    artifact = maker.built(record, "scaled").artifact
    scaled = load_artifact(artifact)["scaled"]
    x = np.arange(16, dtype="float32")
    for size in (4, 16):
        for run in (scaled, load_artifact(fixed(artifact, {"N": size}))["scaled"]):
            out = empty((2 * size,))
            run(array(x[:size]), out)
            np.testing.assert_array_equal(out.numpy().reshape(-1, 2), [[3 * v, 2 * size] for v in x[:size]])
    with pytest.raises(KernelError, match="no kernel for these sizes"):
        scaled(array(x[:5]), empty((10,)))
    out = empty((10,))
    load_artifact(maker.built(record, "scaled", more=[(5,)]).artifact)["scaled"](array(x[:5]), out)
    np.testing.assert_array_equal(out.numpy().reshape(-1, 2), [[3 * v, 10] for v in x[:5]])
    for made, factor in (
        (maker.at(record, (5,), Target(record.target), "new"), 3),
        (maker.plain({"N": 5}, Target(record.target)), 1),
    ):
        out = empty((10,))
        load_artifact(made)[made.entries[0].name](array(x[:5]), out)
        np.testing.assert_array_equal(out.numpy()[::2], factor * x[:5])


def test_a_kernel_in_python(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PYTHON)
    maker = maker_of(f"{tmp_path}/mine.py:twice")
    assert isinstance(maker, KernelMaker)
    record = record_of(maker, (2,))
    assert str(record.configs[0]) == "twice LANES=8"
    x = np.arange(64, dtype="float32")
    for artifact in (maker.built(record).artifact, maker.untuned(Target(local_target()))):
        for size in (16, 64):
            out = empty((size,))
            load_artifact(artifact)["twice"](array(x[:size]), out)
            np.testing.assert_array_equal(out.numpy(), 2 * x[:size])


def entry(*shapes: tuple[int, ...]) -> EntryPoint:
    return EntryPoint("f", "f", tuple(ArgSpec(f"a{at}", "float32", shape) for at, shape in enumerate(shapes)), (0,))


def test_shapes_over_sizes() -> None:
    def probe(size: Size) -> EntryPoint:
        [n] = size
        return entry((n, 64), (n // 2, n * n), (n + 3,))

    [first, second, third] = general_arguments({(64,): probe((64,))}, ["N"], probe)
    assert (first.shape, second.shape, third.shape) == (("N", 64), ("N//2", "N*N"), ("N + 3",))
    with pytest.raises(FamilyError, match="dimension 0 of a0 is 5, 7: it follows no size"):
        general_arguments({(4,): entry((5,)), (8,): entry((7,))}, ["N"], probe)
    with pytest.raises(FamilyError, match="no array has N as an extent"):
        general_arguments({(4,): entry((8,)), (8,): entry((16,))}, ["N"], probe)
    with pytest.raises(FamilyError, match="other arguments"):
        general_arguments({(4,): entry((4,)), (8,): entry((8, 8))}, ["N"], probe)
