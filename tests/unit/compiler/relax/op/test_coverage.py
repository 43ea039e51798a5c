"""Which operators the cases of these folders run: every one that a kernel computes."""

from __future__ import annotations

import importlib

from compiler.relax.nodes import TensorStructInfo, Var
from compiler.relax.op.core.registry import OPERATORS, RefusedPart
from tests.kit.compiler.relax_ops import Case, dims_of

MODULES = (
    "elementwise.test_elements", "movement.test_movement", "nn.test_nn", "reduction.test_sampling", "test_grad",
    "test_image", "test_vision",
)  # fmt: skip
ELSEWHERE = {
    "relax.eye": "made of numbers, not of tensors: in test_movement",
    "relax.ones": "made of a shape: in test_movement", "relax.zeros": "made of a shape: in test_movement",
    "relax.arange": "made of numbers: in test_movement", "relax.hamming_window": "made of numbers: in test_movement",
    "relax.reshape": "needs to know what it is given: in core/test_declarations and the graphs of tests/property",
    "relax.shape_to_tensor": "takes a shape: in execution/test_shapes",
    "relax.size": "in execution/test_shapes",
}  # fmt: skip


def cases_of(module: str) -> list[Case]:
    """The cases in the lists of a module."""
    found = importlib.import_module(f"tests.unit.compiler.relax.op.{module}")
    lists = [value for value in vars(found).values() if isinstance(value, list)]
    return [case for held in lists for case in held if isinstance(case, Case)]


def operator_of_case(case: Case) -> str:
    sizes = case.sizes[0]
    inputs = [
        Var(f"x{i}", TensorStructInfo(dims_of(shape, sizes), case.dtype(i, case.dtypes[0])))
        for i, shape in enumerate(case.shapes)
    ]
    name: str = case.build(*inputs).op.name
    return name


def test_every_operator_that_a_kernel_computes_has_a_case() -> None:
    run = {operator_of_case(case) for module in MODULES for case in cases_of(module)}
    computed = {name for name, entry in OPERATORS.items() if not isinstance(entry.te, RefusedPart)}
    assert computed - run == set(ELSEWHERE)
