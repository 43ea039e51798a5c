"""Columns of local arrays, read as vectors: random shapes, types and orders of writes and reads, against numpy.

A program fills a local array of rows and reads some of its columns, several times. Each column is a vector of as many
lanes as there are rows, or a part of it. Machines with AVX-512 transpose rows of float32 in registers for that; other
types, widths and machines read lane by lane.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.topi import data
from tests.kit.fuzzing import cases

CASES = cases(32)
HERE = Target("llvm").resolved()
MARK = 'annotations={"pragma_transpose": 1}'


class _Program:
    """Steps, each of which may write the array T anew, and puts columns of it into rows of the result."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rows, self.steps = int(rng.integers(2, 17)), int(rng.integers(1, 4))
        self.width = int(rng.choice([16, 16, 32, 48, 20]))
        self.dtype = str(rng.choice(["float32"] * 5 + ["int32", "float64", "float16"]))
        self.above = int(rng.integers(0, 3))
        """Rows of T before the first that is read."""
        self.columns = int(rng.integers(1, self.width + 1))
        self.first = [int(rng.integers(self.width - self.columns + 1)) for _ in range(self.steps)]
        self.written = [step == 0 or bool(rng.integers(2)) for step in range(self.steps)]
        self.valid = self.rows if rng.integers(2) else int(rng.integers(1, self.rows + 1))
        """Lanes of a column that are stored."""

    @property
    def is_transposed(self) -> bool:
        """Whether columns are surely made by shuffles, where the machine has them."""
        whole = self.valid == self.rows and self.rows in (2, 4, 8, 16)
        return self.dtype == "float32" and self.width % 16 == 0 and whole

    def text(self) -> str:
        rows, width, skipped = self.rows, self.width, self.above * self.width
        lines = [
            "@T.prim_func",
            f'def main(A: T.Buffer(({self.steps}, {rows}, {width}), "{self.dtype}"),',
            f'         B: T.Buffer(({self.steps}, {self.columns}, {rows}), "{self.dtype}")):',
            '    T.func_attr({"tir.noalias": True})',
            f'    T_ = T.alloc_buffer(({skipped + rows * width},), "{self.dtype}", scope="local")',
        ]
        for step, first in enumerate(self.first):
            if self.written[step]:
                lines += [
                    f"    for r in T.unroll({rows}):",
                    f"        for c in T.vectorized({width}):",
                    f"            T_[{skipped} + r * {width} + c] = A[{step}, r, c]",
                ]
            store = f"B[{step}, c, r] = T_[{skipped} + r * {width} + c + {first}]"
            lines += [
                f"    for c in T.unroll({self.columns}, {MARK}):",
                f"        for r in T.vectorized({rows}, {MARK}):",
                *([f"            if r < {self.valid}:", f"                {store}"] if self.valid < rows
                  else [f"            {store}"]),
            ]  # fmt: skip
        return "\n".join(lines)

    def function(self) -> PrimFunc:
        func = from_source(self.text())
        assert isinstance(func, PrimFunc)
        return func

    def by_numpy(self, a: np.ndarray) -> np.ndarray:
        out, held = np.zeros((self.steps, self.columns, self.rows), self.dtype), a[0]
        for step, first in enumerate(self.first):
            held = a[step] if self.written[step] else held
            out[step, :, : self.valid] = held[: self.valid, first : first + self.columns].T
        return out


@pytest.mark.parametrize("begin", range(0, CASES, 16))
def test_columns_are_those_of_numpy(begin: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(begin, min(begin + 16, CASES)):
        rng = np.random.default_rng([seed, 5])
        program = _Program(rng)
        artifact = compile_artifact(program.function(), HERE, name="main", keep=("ll",))
        a = data(program.steps, program.rows, program.width, dtype=program.dtype, rng=rng)
        out = array(np.zeros((program.steps, program.columns, program.rows), program.dtype))
        load_artifact(artifact)["main"](array(a), out)
        np.testing.assert_array_equal(out.numpy(), program.by_numpy(a), err_msg=program.text())
        shuffled = "shufflevector <16 x float>" in artifact.blobs["ll"].decode()
        if program.is_transposed and "avx512f" in HERE.features:
            assert shuffled, program.text()
        seen[f"transposed {shuffled}"] += 1
    if "avx512f" in HERE.features:
        assert len(seen) == 2, seen
