"""Loops annotated with `in_place` in random functions, most of which want it wrongly: they compute what they did.

A temporary is made of inputs, perhaps changed, perhaps read by others before or after, and stored to a result: of the
same element or another one, by the same box or another one, within loops that are split, parallel or repeated. Each
function is run as it was without the annotation, lowered, and as machine code.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import array
from compiler.script.entry import from_source
from compiler.tir.nodes import PrimFunc
from tests.kit.fuzzing import cases

CASES, CHUNK = cases(160), 20
Rng = np.random.Generator
ASK = 'annotations={"in_place": 1}'


def _chance(rng: Rng, percent: int) -> bool:
    return bool(rng.integers(100) < percent)


def _one(rng: Rng, *choices: str) -> str:
    return choices[int(rng.integers(len(choices)))]


class _Program:
    """A function that is made up: rows of `m` in a block, or all of it, with a temporary T."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.n, self.m = int(rng.integers(1, 5)), int(rng.choice([1, 2, 4, 6, 8, 12, 16]))
        kinds = ["rows", "dtype", "row", "shape", "nest", "index", "other", "after"]
        drawn = int(rng.integers(20))  # of 20 functions 6 have nothing odd, 10 one kind of it, and 4 any
        self._odd = [] if drawn < 6 else kinds if drawn > 15 else [kinds[drawn % len(kinds)]]
        self._rows = "rows" not in self._odd or _chance(rng, 50)  # a temporary a row, or one for all
        self._dtype = "float64" if "dtype" in self._odd and _chance(rng, 50) else "float32"
        other_row = _one(rng, f"{self.n - 1} - i", "0", f"(i + 1) % {self.n}")
        self._row = other_row if "row" in self._odd and _chance(rng, 50) else "i"
        same, others = f"({self.n}, {self.m})", (f"({self.n}, {self.m + 1})", f"({self.n + 1}, {self.m})")
        self._shape = _one(rng, *others) if "shape" in self._odd and _chance(rng, 50) else same

    def _nest(self, var: str, statement: str, ask: bool = False) -> list[str]:
        """`statement` for each `var` of a row, in a loop, a split one, or one more loop around; seldom not for all."""
        rng, m = self._rng, self.m
        each = f"@{var}" in statement.partition(" = ")[0]  # else the order of its turns is part of its meaning
        kind = _one(rng, "serial", "serial", "serial", "vectorized", "unroll", "parallel") if each else "serial"
        told = f", {ASK}" if ask else ""
        factor = next((f for f in (4, 3, 2) if m % f == 0 and m > f), 0)
        form = int(rng.integers(12)) if "nest" in self._odd else int(rng.choice([1, 1, 11]))
        if form < 3 and factor:
            inner, outer = f"{var}_in", f"{var}_out"
            index = f"{outer} * {factor} + {inner}" if form else f"{inner} * {m // factor} + {outer}"
            ends = (m // factor, factor)
            split = statement.replace(f"@{var}", f"({index})")
            on_inner = ask and _chance(rng, 30)
            return [
                f"for {outer} in T.serial({ends[0]}{'' if on_inner else told}):",
                f"    for {inner} in T.{kind}({ends[1]}{told if on_inner else ''}):",
                f"        {split}",
            ]
        head = f"for {var} in T.{kind}({m}{told}):"
        plain = statement.replace(f"@{var}", var)
        if form == 3:
            return [f"for {var}_again in range({_one(rng, '1', '2')}):", f"    {head}", f"        {plain}"]
        if form == 4 and m > 1:
            return [f"for {var} in T.{kind}({m - 1}{told}):", f"    {plain}"]
        if form == 5:
            condition = _one(rng, f"A[0, {var}] > T.float32(0)", f"{var} < {m}", f"{var} > 0")
            return [head, f"    if {condition}:", f"        {plain}"]
        return [head, f"    {plain}"]

    def _index(self, var: str, least: int = 75) -> str:
        """The element of `var`, or another one."""
        if "index" not in self._odd or _chance(self._rng, least):
            return f"{self._row}, @{var}"
        last = self.m - 1
        others = [f"i, {last} - @{var}", "i, 0", f"i, {last}", f"i, (@{var} + 1) % {self.m}", f"0, @{var}"]
        return _one(self._rng, *others)

    def _cast(self, text: str, dtype: str) -> str:
        return text if self._dtype == "float32" else f'T.Cast("{dtype}", {text})'

    def _made(self) -> list[str]:
        value = _one(
            self._rng, f"A[{self._index('j')}] * T.float32(2)", f"A[{self._index('j')}] + D[i, @j]", "A[i, @j]"
        )
        return self._nest("j", f"B[{self._index('j', 90)}] = {self._cast(value, self._dtype)}")

    def _other(self, letter: str) -> list[str]:
        """A statement that reads the temporary, writes it, or reads or writes the result."""
        rng = self._rng
        read = self._cast(f"B[{self._index(letter, 50)}]", "float32")
        update = f"B[{self._row}, @{letter}] = B[{self._row}, @{letter}] * {self._cast('T.float32(3)', self._dtype)}"
        reads = [f"D[i, @{letter}] = {read}", f"D[i, 0] = D[i, 0] + {read}"]
        statement = _one(
            rng,
            *reads * 4,
            update,
            f"D[i, @{letter}] = C[{self._index(letter)}]",
            f"C[{self._index(letter)}] = {read}",
            f"A[i, @{letter}] = T.float32(5)",
        )
        return self._nest(letter, statement if "other" in self._odd else _one(rng, *reads))

    def _stored(self) -> list[str]:
        read = self._cast(f"B[{self._index('k', 85)}]", "float32")
        again = self._cast(f"B[{self._index('k', 50)}]", "float32")
        more = _one(self._rng, "", "", " * D[i, 0]", " + A[i, @k]", f" + {again}")
        return self._nest("k", f"C[{self._index('k', 90)}] = {read}{more}", ask=True)

    def text(self) -> str:
        rng = self._rng
        body = self._made()
        for number in range(int(rng.integers(3))):
            body += self._other(f"p{number}")
        body += self._stored()
        if "after" in self._odd and _chance(rng, 60):
            body += self._other("q")
        alone = self._row == "i" and "[0, " not in "".join(body)  # rows have nothing to do with each other
        over = f"for i in T.{'parallel' if alone and _chance(rng, 30) else 'serial'}({self.n}):"
        temporary = f'B = T.alloc_buffer({self._shape}, "{self._dtype}")'
        block = ['with T.block("rows"):', "    T.reads()", "    T.writes()"]
        if self._rows:
            lines = [over, *(f"    {x}" for x in block), f"        {temporary}", *(f"        {x}" for x in body)]
        else:
            parts = self._apart(body)
            lines = [*block, f"    {temporary}"]
            for part in parts:
                lines += [f"    {over}", *(f"        {x}" for x in part)]
        head = ["@T.prim_func", "def main(a: T.handle, d: T.handle, c: T.handle):"]
        buffers = [f'{b} = T.match_buffer({b.lower()}, ({self.n}, {self.m}), "float32")' for b in "ADC"]
        return "\n".join([*head, *(f"    {line}" for line in [*buffers, *lines])]) + "\n"

    def _apart(self, body: list[str]) -> list[list[str]]:
        """The statements of `body`, all in loops over the rows of their own, or those from one on together."""
        starts = [at for at, line in enumerate(body) if not line.startswith(" ")]
        return [body[at:end] for at, end in zip(starts, [*starts[1:], len(body)])]


def _outcome(func: PrimFunc, shape: tuple[int, int], *, native: bool = False) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(-1, 1, shape).astype("float32") for _ in range(3)]
    if not native:
        run(func, *arrays)
        return arrays
    there = [array(a) for a in arrays]
    build(func, target="llvm")(*there)
    return [a.numpy() for a in there]


def check(seed: int, counts: Counter[str]) -> None:
    program = _Program(np.random.default_rng(seed))
    text = program.text()
    try:
        func, plain = from_source(text), from_source(text.replace(f", {ASK}", ""))
        assert isinstance(func, PrimFunc)
        assert isinstance(plain, PrimFunc)
        lowered = lower_func(func)
        shape = (program.n, program.m)
        wanted = _outcome(plain, shape)
        for found in (_outcome(lowered, shape), _outcome(func, shape, native=True)):
            for name, want, got in zip("ADC", wanted, found):
                made = ~np.isnan(want)  # of what nobody gave a value any may come
                np.testing.assert_allclose(got[made], want[made], rtol=1e-5, atol=1e-6, err_msg=name)
        assert "in_place" not in lowered.script()
        counts["kept" if "T.allocate" in lowered.script() else "in place"] += 1
    except Exception as error:
        error.add_note(f"seed {seed}:\n{text}")
        raise


@pytest.mark.parametrize("start", range(0, CASES, CHUNK))
def test_random_temporaries_in_their_results_places(start: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(start, start + CHUNK):
        check(seed, counts)
    assert counts["in place"]  # or nothing is tested
    assert counts["kept"]
