"""Random graphs: each pass leaves what they compute alone, and executables compute it, too."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.ir.structural import structural_equal
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import PIPELINES
from compiler.relax.transform.vm_builtin_lower import vm_builtin_lower
from tests.kit.compiler.random_graphs import Graph, random_graph
from tunefarm import relax


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [item for part in value for item in flat(part)]
    return [value.numpy() if isinstance(value, tvm.nd.NDArray) else np.asarray(value)]


def assert_same(got: Any, wanted: Any, what: str) -> None:
    found, expected = flat(got), flat(wanted)
    assert len(found) == len(expected), what
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=what)


def check(graph: Graph) -> None:
    wanted = run(graph.module, *graph.args)
    mod = graph.module
    on_machine = False
    for function in PIPELINES["default"]:
        title = pass_of(function).title
        on_machine = on_machine or function is vm_builtin_lower
        made = pass_of(function).make()(mod)
        assert problems(made) == [], title
        if not on_machine and not structural_equal(made, mod):
            assert_same(run(made, *graph.args), wanted, title)
        mod = made
    machine = relax.VirtualMachine(relax.build(graph.module, "llvm"), tvm.cpu())
    for _ in range(2):
        assert_same(machine["main"](*graph.args), wanted, "VirtualMachine")


@pytest.mark.parametrize("seed", range(12))
def test_every_pass_and_the_machine_give_what_the_interpreter_gives(seed: int) -> None:
    check(random_graph(seed, symbolic=seed % 2 == 0))
