"""Modules that run in the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.driver.build import build, compile_artifact, lower
from compiler.errors import ArgumentError, ArtifactError, CodegenError
from compiler.ir.module import IRModule
from compiler.runtime.core.device import cpu, cuda
from compiler.runtime.core.ndarray import array
from tests.kit.compiler.lowering import chain, matmul


def test_the_interpreter_and_machine_code_agree() -> None:
    values = np.random.default_rng(0)
    a, b = (values.standard_normal(s).astype("float32") for s in ((5, 7), (7, 6)))
    outs = [array(np.zeros((5, 6), "float32")) for _ in range(2)]
    for target, out in zip(("stackvm", "llvm"), outs):
        module = build(matmul(5, 6, 7), target=target)
        assert module.type_key == target
        module(array(a), array(b), out)
        np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5)


def test_targets_of_one_build_may_differ() -> None:
    one, two = lower(matmul(2, 3, 4), name="one"), lower(chain(3, 5), name="two")
    module = build({"llvm": one, "stackvm": two})
    assert module.type_key == "llvm"
    assert [m.type_key for m in module.imported_modules] == ["stackvm"]
    x, y, out = (array(np.full((3, 5), v, "float32")) for v in (1, 2, 0))
    module.get_function("two", query_imports=True)(x, y, out)
    np.testing.assert_array_equal(out.numpy(), np.full((3, 5), 4, "float32"))


def test_arguments_are_checked() -> None:
    module = build(IRModule({"mm": matmul(2, 3, 4)}), target="stackvm")
    with pytest.raises(ArgumentError, match=r"mm: argument 1 \(B\) has shape \(3, 4\)"):
        module(*(array(np.zeros(s, "float32")) for s in ((2, 4), (3, 4), (2, 3))))
    with pytest.raises(ArgumentError, match="takes 3 arguments, 1 given"):
        module["mm"](array(np.zeros((2, 4), "float32")))


def test_time_evaluator_calls_as_often_as_it_says() -> None:
    module = build(matmul(2, 3, 4), target="stackvm")
    args = [array(np.ones(s, "float32")) for s in ((2, 4), (4, 3), (2, 3))]
    result = module.time_evaluator(module.get_function_list()[0], cpu(), number=2, repeat=3)(*args)
    assert len(result.results) == 3
    assert min(result.results) > 0
    np.testing.assert_array_equal(args[2].numpy(), np.full((2, 3), 4, "float32"))
    with pytest.raises(Exception, match="cannot be timed on cuda"):
        module.time_evaluator("default_function", cuda())


def test_it_stays_in_this_process(tmp_path: Path) -> None:
    module = build(matmul(2, 3, 4), target="stackvm")
    assert "T.Buffer" in module.get_source("tir")
    module.save(str(tmp_path / "mm.tir"))
    assert (tmp_path / "mm.tir").read_text() == module.get_source()
    with pytest.raises(ArtifactError, match="no source in format 'll'"):
        module.get_source("ll")
    with pytest.raises(ArtifactError, match="no machine code"):
        module.save(str(tmp_path / "mm.so"))
    with pytest.raises(CodegenError, match="run in the process that built them"):
        compile_artifact(matmul(2, 3, 4), "stackvm")
