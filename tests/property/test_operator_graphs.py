"""Random graphs of every operator: before and after every pass they compute the same, and in the machine, too.

    python -m tests.property.test_operator_graphs 0 10000

runs graphs by number, in as many processes as there are cores, and prints those that fail and how often each operator
occurred.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.relax.analysis import problems
from compiler.relax.op.core.registry import OPERATORS
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import PIPELINES
from compiler.relax.transform.vm_builtin_lower import vm_builtin_lower
from tests.kit.compiler.kept_results import Results
from tests.kit.compiler.operator_graph_steps import NOT_IN_GRAPHS, WITH_ANOTHER
from tests.kit.compiler.operator_graphs import MOST, operator_graph, operators_of
from tests.kit.compiler.random_graphs import Graph
from tests.kit.compiler.relax_ops import Case
from tests.kit.fuzzing import FUZZ_CASES, cases
from tests.unit.compiler.relax.op.test_coverage import MODULES, cases_of, operator_of_case
from tunefarm import relax

PARTS = 20
"""Tests that the graphs of `make fuzz` are spread over."""


def every_case() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for module in MODULES:
        for case in cases_of(module):
            found.setdefault(operator_of_case(case), []).append(case)
    return found


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [item for part in value for item in flat(part)]
    return [value.numpy() if isinstance(value, tvm.nd.NDArray) else np.asarray(value)]


def assert_same(got: Any, wanted: Any, what: str, integers: bool = True) -> None:
    """`integers` are compared where both sides round alike: the place of the largest of nearly equal numbers is one."""
    found, expected = flat(got), flat(wanted)
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        loose = 2e-2 if a.dtype.itemsize == 2 else 1e-3
        if a.dtype.kind in "biu":
            if integers:
                np.testing.assert_array_equal(a, b, err_msg=what)
        else:
            a, b = a.astype("float64"), b.astype("float64")
            np.testing.assert_allclose(a, b, rtol=loose, atol=loose, err_msg=what, equal_nan=True)


def check(made: Graph, seed: int, on_machine: bool, results: Results) -> None:
    mod, args = made.module, made.args
    wanted = results.run(mod, *args)
    for function in PIPELINES["default"]:
        title = f"graph {seed}, {pass_of(function).title}"
        if function is vm_builtin_lower:
            break
        mod = pass_of(function).make()(mod)
        assert problems(mod) == [], title
        assert_same(results.run(mod, *args), wanted, title)
    results.forget()
    if on_machine:
        machine = relax.VirtualMachine(relax.build(made.module, "llvm"), tvm.cpu())
        assert_same(machine["main"](*args), wanted, f"graph {seed}, VirtualMachine", integers=False)


@pytest.mark.parametrize("part", range(PARTS if FUZZ_CASES else 1))
def test_every_pass_leaves_what_graphs_of_every_operator_compute(part: int) -> None:
    """In `make fuzz` graphs are large, and each tenth is also built."""
    known, count, results = every_case(), cases(2), Results()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(part, count, PARTS) if FUZZ_CASES else range(count):
            made = operator_graph(seed, known, most=MOST if FUZZ_CASES else 8)
            check(made, seed, bool(FUZZ_CASES) and seed % 10 == 0, results)


def test_ten_thousand_graphs_have_every_operator_twenty_times() -> None:
    """Every operator of the table but those that only lowering writes, and those between workers."""
    known = every_case()
    total = Counter(name for seed in range(10_000) for name in operators_of(seed, known))
    total.update({name: total[with_it] for name, with_it in WITH_ANOTHER.items()})
    assert {name for name in OPERATORS if total[name] < 20} == set(NOT_IN_GRAPHS)


def failure(seed: int) -> str:
    """Return the fault of a large graph; empty text for one that holds."""
    try:
        check(operator_graph(seed, _cases()), seed, seed % 10 == 0, _results())
    except Exception:
        _results().forget()
        return traceback.format_exc()
    return ""


_cases, _results = cache(every_case), cache(Results)


def main(first: int, last: int) -> int:
    """Run graphs, and print failures and the histogram. Returns how many failed."""
    warnings.simplefilter("ignore")
    seeds, failed = range(first, last), 0
    with ProcessPoolExecutor() as pool:
        for seed, found in zip(seeds, pool.map(failure, seeds, chunksize=8), strict=True):
            if found:
                failed += 1
                print(f"graph {seed}\n{found}", flush=True)
            elif (seed + 1) % 500 == 0:
                print(f"{seed + 1 - first} graphs, {failed} failed", flush=True)
    total = Counter(name for seed in seeds for name in operators_of(seed, _cases()))
    print(*(f"{count:8} {name}" for name, count in total.most_common()), sep="\n")
    print(f"{len(seeds)} graphs, {total.total()} operators, the rarest {min(total.values())} times; {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])) > 0)
