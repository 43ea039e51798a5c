"""The first operator of a model that differs: alone, only where it is fused, or none at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tunefarm as tvm
from compiler.frontend.model_files import ModelFile, read_model_file
from compiler.relax.interp import run as interpret
from tunefarm.cli.models.compare import Compared, compare_results

OPERATORS = ("Neg", "Exp", "Abs", "Tanh", "Sigmoid")
X = np.random.default_rng(0).random((3, 4), dtype=np.float32)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five operators, each on the result of the one before: t1 to t5."""
    nodes = [helper.make_node(name, [f"t{at}"], [f"t{at + 1}"]) for at, name in enumerate(OPERATORS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("t0", f"t{len(nodes)}")]
    path = tmp_path_factory.mktemp("chain") / "chain.onnx"
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def given(model: ModelFile) -> list[np.ndarray]:
    found = interpret(model.module, X)
    return list(found) if isinstance(found, tuple) else [found]


def compared(path: Path, wrong: Callable[[ModelFile, int], bool]) -> Compared:
    """A model whose last result is off, and of which parts are off where `wrong(part, number of result)` says so."""
    runs = []

    def run(cut: ModelFile) -> Any:
        runs.append(cut.name)
        found = [
            tvm.nd.array(value + np.float32(wrong(cut, number)))
            for number, value in enumerate(np.asarray(one) for one in given(cut))
        ]
        return found[0] if len(found) == 1 else tuple(found)

    model = read_model_file(str(path))
    [result] = given(model)
    found = compare_results("onnxruntime", model, path, {"t0": X}, {"t5": result + 1}, 1e-3, 1e-4, ({}, run))
    assert [one.name for one in found.wrong] == ["t5"]
    assert len(runs) <= 1 + len(OPERATORS).bit_length()
    return found


def test_an_operator_that_differs_alone_is_found_in_one_run(chain: Path) -> None:
    found = compared(chain, lambda cut, number: number >= 2)  # of all tensors as results: from t3 on
    assert found.first is not None
    assert (found.first.operator, found.first.difference.name, found.first.fused) == ("Abs", "t3", False)
    assert found.lines()[-1].startswith("the first operator that differs is Abs at node 'Abs 2': t3 by 1")


@pytest.mark.parametrize("first", range(len(OPERATORS)))
def test_what_differs_only_where_it_is_fused_is_found_by_halving(chain: Path, first: int) -> None:
    found = compared(chain, lambda cut, _: cut.name.startswith("cut_") and int(cut.name[4:]) >= first)
    assert found.first is not None
    assert (found.first.operator, found.first.fused) == (OPERATORS[first], True)
    assert found.lines()[-1].startswith(
        f"every operator agrees alone; fused, the first that differs is {OPERATORS[first]}"
    )


def test_where_nothing_differs_alone_that_is_said(chain: Path) -> None:
    found = compared(chain, lambda *_: False)
    assert found.first is None
    assert found.lines()[-1].startswith("no operator differs alone")
