"""Every text reads back: functions as written, scheduled, and after each pass of lowering."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compiler import topi
from compiler.driver.pipeline import stages
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal, structural_hash
from compiler.script.entry import from_source
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.tensor import Tensor
from compiler.tir.nodes import PrimFunc, SizeVar
from tests.golden import test_lower_text, test_schedule_text
from tests.kit.compiler.schedules import te as te_schedules
from tests.kit.compiler.schedules import te_primitives  # noqa: F401  (adds its cases)

_TEXTS = sorted(path for folder in ("lower", "te") for path in (Path(__file__).parent / folder).glob("*.txt"))


def check(func: PrimFunc) -> None:
    text = func.script()
    again = from_source(text)
    assert again.script() == text
    assert_structural_equal(again, func)
    assert structural_hash(again) == structural_hash(func)


def check_every_stage(func: PrimFunc) -> None:
    check(func)
    before = func
    for _, lowered in stages(func):
        if lowered is not before:  # most passes find nothing to do
            check(lowered)
        before = lowered


@pytest.mark.parametrize("name", test_lower_text.CASES)
def test_lowered(name: str) -> None:
    check_every_stage(test_lower_text.CASES[name]())


@pytest.mark.parametrize("name", test_schedule_text.CASES)
def test_scheduled(name: str) -> None:
    check(test_schedule_text.CASES[name]()[1].func)


@pytest.mark.parametrize("name", te_schedules.CASES)
def test_from_te(name: str) -> None:
    schedule, args, _ = te_schedules.CASES[name]()
    check_every_stage(schedule_to_func(schedule, args, name=name))


@pytest.mark.parametrize("path", _TEXTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_text(path: Path) -> None:
    text = path.read_text().rstrip("\n")
    func = from_source(text)
    assert func.script() == text
    module = IRModule({"main": func})
    assert from_source(module.script()).script() == module.script()


TOPI: dict[str, Callable[[], list[Tensor]]] = {}


def operator(make: Callable[[], list[Tensor]]) -> None:
    """Register the arguments of a function, the result last."""
    TOPI[make.__name__] = make


@operator
def conv_and_relu() -> list[Tensor]:
    data, weight = placeholder((1, 3, 9, 9), name="data"), placeholder((4, 3, 3, 3), name="weight")
    return [data, weight, topi.nn.relu(topi.nn.conv2d_nchw(data, weight, 2, 1, 1))]


@operator
def softmax() -> list[Tensor]:
    data = placeholder((4, 20), name="data")
    return [data, topi.nn.softmax(data)]


@operator
def layout() -> list[Tensor]:
    data = placeholder((4, 6, 5), name="data")
    return [data, topi.reshape(topi.transpose(data, (1, 0, 2)), (24, 5))]


@operator
def symbolic_rows() -> list[Tensor]:
    data = placeholder((SizeVar("rows"), 8), "float16", name="data")
    return [data, topi.exp(data)]


@pytest.mark.parametrize("name", TOPI)
def test_topi(name: str) -> None:
    check_every_stage(create_prim_func(TOPI[name]()))
