"""Random loops over a temporary that iterations may leave values in for later ones: lowering keeps what is computed.

A temporary lives in a block around all loops. Statements write to it and read from it, at elements of their own, of
neighbours, always the same one or reversed ones, for some iterations only, in loops of their own or in common ones.
Each function is run as it is written, lowered, and as machine code.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.lower.blocks.lower_init import lower_init
from compiler.lower.blocks.plan_allocation import plan_allocation
from compiler.runtime.core.ndarray import array
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from tests.kit.fuzzing import cases

CASES, CHUNK = cases(80), 40
Rng = np.random.Generator
SIZE = 24  # of the temporary: indices are taken modulo it where they may leave it


class _Program:
    """A function of two outer loops, i and r, around statements that use T."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._rows, self._again = int(rng.integers(1, 5)), int(rng.choice([1, 1, 2, 3]))
        self._width = int(rng.choice([1, 2, 4, 6]))
        self._count = 0
        self._own = self._any_place("@")
        self._odd = int(rng.choice([0, 1, 4]))  # of 10 places, how many are others

    def _one(self, *choices: str) -> str:
        return choices[int(self._rng.integers(len(choices)))]

    def _place(self, var: str) -> str:
        """The function's own place, with `var`, or seldom another one."""
        return self._any_place(var) if self._rng.integers(10) < self._odd else self._own.replace("@", var)

    def _any_place(self, var: str) -> str:
        width = self._width
        usual = self._one(var, f"i * {width} + {var}", f"i * 2 + {var}", f"r * {width} + {var}", "0", "i", "i + 1")
        odd = self._one(
            f"i * {width} + {width - 1} - {var}", f"i + {var} * 2", f"(i * {width} + {var}) % {SIZE}", "P[i]",
            f"P[i] + {var}",
            f"T.max(i + {var} - 1, 0)", "T.max(i - 1, 0)", f"i // 2 + {var}", f"{var} // 2", f"{var} % 2",
        )  # fmt: skip
        return usual if self._rng.integers(4) else odd

    def _condition(self, var: str) -> str:
        width = self._width
        return self._one(
            "i == 0", "r == 0", f"{var} == 0", "i < 2", f"i * {width} + {var} < {SIZE}", f"{var} < {width - 1}",
            "A[i, 0] > T.float32(0)", "i == r", f"i + {var} > 0", "r == 0 and i == 0",
        )  # fmt: skip

    def _statement(self, var: str) -> str:
        place = self._place(var)
        read = f"C[i, {var}] = C[i, {var}] + T_[{place}]"
        write = f"T_[{place}] = A[i, {var}] * T.float32(2)"
        update = f"T_[{place}] = T_[{place}] + A[i, {var}]"
        return self._one(write, write, write, read, read, read, update)

    def _nest(self, count: int) -> list[str]:
        """Statements one after another in a loop of their own."""
        self._count += 1
        var = f"j{self._count}"
        extent = self._one(*[str(self._width)] * 4, "1", f"{max(self._width - 1, 1)}")
        lines = [f"for {var} in range({extent}):"]
        for _ in range(count):
            statement = self._statement(var)
            if self._rng.integers(3):
                lines.append(f"    {statement}")
            else:
                lines += [f"    if {self._condition(var)}:", f"        {statement}"]
        return lines

    def text(self) -> str:
        body = [f"for y in range({self._width}):", f"    T_[{self._place('y')}] = A[i, y]"]
        if not self._rng.integers(3):
            body.insert(0, f"if {self._condition('r')}:")
            body[1:] = [f"    {line}" for line in body[1:]]
        for _ in range(int(self._rng.integers(3))):
            body += self._nest(int(self._rng.integers(1, 3)))
        self._count += 1
        body += [f"for z in range({self._width}):", f"    C[i, z] = C[i, z] + T_[{self._place('z')}]"]
        outer = [f"for i in range({self._rows}):", f"    for r in range({self._again}):"]
        if self._rng.integers(2):
            outer = [f"for r in range({self._again}):", f"    for i in range({self._rows}):"]
        lines = [
            "@T.prim_func",
            "def main(a: T.handle, p: T.handle, c: T.handle):",
            '    A = T.match_buffer(a, (4, 6), "float32")',
            '    P = T.match_buffer(p, (4,), "int32")',
            '    C = T.match_buffer(c, (4, 6), "float32")',
            '    with T.block("all"):',
            "        T.reads()",
            "        T.writes()",
            f'        T_ = T.alloc_buffer(({SIZE},), "float32")',
            *(f"        {line}" for line in outer),
            *(f"                {line}" for line in body),
        ]
        return "\n".join(lines) + "\n"


def _arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    values = [rng.uniform(-1, 1, (4, 6)).astype("float32") for _ in range(2)]
    return [values[0], np.array([2, 0, 2, 1], "int32"), values[1]]


def _outcome(func: PrimFunc, *, native: bool = False) -> np.ndarray:
    arrays = _arrays()
    if not native:
        run(func, *arrays)
        return arrays[2]
    there = [array(a) for a in arrays]
    build(func, target="llvm")(*there)
    return there[2].numpy()


def check(seed: int, counts: Counter[str]) -> None:
    text = _Program(np.random.default_rng(seed)).text()
    try:
        func = from_source(text)
        assert isinstance(func, PrimFunc)
        wanted = _outcome(func)
        made = ~np.isnan(wanted)  # of what nobody gave a value any may come
        for found in (_outcome(lower_func(func)), _outcome(func, native=True)):
            np.testing.assert_allclose(found[made], wanted[made], rtol=1e-5, atol=1e-6)
        counts["inside" if "alloc_T_" in plan_allocation(lower_init(func)).script() else "outside"] += 1
    except Exception as error:
        error.add_note(f"seed {seed}:\n{text}")
        raise


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_random_temporaries_keep_what_later_iterations_read(start: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(start, start + CHUNK):
        check(seed, counts)
    assert counts["inside"]  # or nothing is tested
    assert counts["outside"]
