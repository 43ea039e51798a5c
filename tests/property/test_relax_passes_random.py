"""Random graphs before and after each pass that is run on request: they compute the same, interpreted.

The passes of the pipeline are in `test_relax_pipeline_random.py`. Each pass is in one of the two, or says why not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler import topi
from compiler.ir.module import IRModule
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.nodes import Function
from compiler.relax.te_calls import make_kernel
from compiler.relax.transform.passes import pass_of, relax_passes
from compiler.relax.transform.pipeline import FUSION, KERNELS, PIPELINES
from compiler.relax.transform.tuning.kernel_tuner import KernelTuner, kernel_tuner
from tests.kit.compiler.pass_checks import same_values
from tests.kit.compiler.random_graphs import Graph, random_graph
from tests.kit.compiler.random_images import random_image_graph
from tests.kit.fuzzing import cases
from tunefarm import relax
from tunefarm.relax import transform

SEEDS = cases(1)
Runner = Callable[[IRModule, Graph], Any]


class Case:
    """A pass with arguments, on graphs of one kind, run in a way of its own where it changes what functions take."""

    def __init__(
        self, *args: Any, on: str = "operators", by: Runner | None = None, tolerance: float = 1e-4, **named: Any
    ) -> None:
        self.args, self.named = args, named
        self.on = on
        self.by = by or plainly
        self.tolerance = tolerance


def plainly(mod: IRModule, graph: Graph) -> Any:
    return run(mod, *graph.args)


# --------------------------------------------------------------------------------- kinds of graphs


@cache
def graph_of(kind: str, seed: int) -> Graph:
    """A graph before the pass."""
    if kind == "images":
        return random_image_graph(seed)
    made = random_graph(seed, count=6, symbolic=kind != "fixed")
    mod = made.module
    if kind == "kernels":
        mod = _after(mod, KERNELS)
    elif kind == "private":
        mod = transform.FuseOps()(_after(transform.ConvertToDataflow(1)(mod), [*KERNELS, FUSION[0]]))
    elif kind == "weights":
        mod = mod.with_functions({"main": mod["main"].with_attr("num_input", 1)})
    elif kind == "lifted":
        mod = transform.LiftTransformParams()(graph_of("weights", seed).module)
    return Graph(mod, made.args)


def _after(mod: IRModule, passes: Sequence[Any]) -> IRModule:
    return tvm.transform.Sequential([pass_of(function).make() for function in passes])(mod)


@cache
def wanted_of(kind: str, seed: int) -> Any:
    graph = graph_of(kind, seed)
    return lifted(graph.module, graph) if kind == "lifted" else run(graph.module, *graph.args)


# ----------------------------------------------------------------------------------- ways of running


def without_weight(mod: IRModule, graph: Graph) -> Any:
    """The second parameter was bound."""
    return run(mod, graph.args[0], *graph.args[2:])


def bundled(mod: IRModule, graph: Graph) -> Any:
    return run(mod, graph.args[0], tuple(graph.args[1:]))


def lifted(mod: IRModule, graph: Graph) -> Any:
    """The transformed weights are computed first."""
    made = run(mod, tuple(graph.args[1:]), func="main_transform_params")
    return run(mod, graph.args[0], *made)


def asked_for(mod: IRModule, graph: Graph) -> Any:
    """Weights come from a function."""
    return run(mod, graph.args[0], lambda place, name: graph.args[1 + place])


def given_away(mod: IRModule, graph: Graph) -> Any:
    """Results go to a function."""
    held: dict[int, Any] = {}
    inputs = graph.args
    run(mod, *inputs, lambda place, value: held.update({int(place): value}) or ())
    found = tuple(held[place] for place in range(len(held)))
    return found if len(found) > 1 else found[0]


def one_by_one(mod: IRModule, graph: Graph) -> Any:
    """Weights are loaded and given away by functions of the runtime."""
    held: dict[int, Any] = {}
    tvm.register_func("get_item", lambda place: graph.args[1 + int(place)], override=True)
    tvm.register_func("set_item", lambda place, value: held.update({int(place): value}), override=True)
    run(mod, func="main_transform_params")
    return run(mod, graph.args[0], *[held[place] for place in range(len(held))])


def adjoint(mod: IRModule, graph: Graph) -> Any:
    """The result of the function that also gives gradients."""
    return run(mod, *graph.args, func="main_adjoint")[0]


def _transposed(x: Any) -> Any:
    return topi.tanh(x)


def _other_tanh() -> Any:
    """tanh of a transposed matrix."""
    x = relax.Var("x", relax.TensorStructInfo((4, 3), "float32"))  # type: ignore[arg-type]
    return make_kernel(_transposed, [x], {}, "tanh").func


def _named(mod: IRModule) -> IRModule:
    """Kernels with the attribute that says which operator they compute."""
    functions = dict(mod.functions)
    for name, func in mod.items():
        if not isinstance(func, Function) and name.name_hint == "tanh":
            functions[name] = func.with_attr("operator_name", "test.tanh")
    return mod.with_functions(functions)


SWAP = lambda i, j: (j, i)  # noqa: E731
MATMUL = Case()
ON_REQUEST: dict[str, Case] = {
    **{name: Case() for name in (
        "AdjustMatmulOrder", "CombineParallelMatmul", "ConvertToDataflow", "ExpandMatmulOfSum", "FuseTransposeMatmul",
        "RemoveRedundantReshape", "ReorderPermuteDimsAfterConcat", "ReorderTakeAfterMatmul",
        "TopologicalSort",
    )},
    **{name: Case(on="private") for name in (
        "ExpandTupleArguments", "InlinePrivateFunctions", "NormalizeGlobalVar", "RemoveUnusedOutputs",
        "RemoveUnusedParameters",
    )},
    **{name: Case(on="images") for name in ("DecomposeOpsForInference", "OptimizeLayoutTransform")},
    "AlterOpImpl": Case({"test.tanh": _other_tanh()}, {"test.tanh": [SWAP, SWAP]}, on="fixed"),
    "AttachAttrLayoutFreeBuffers": Case(on="kernels"),
    "BindParams": Case("main", {"w": np.ones((4, 4), "float32")}, by=without_weight),
    "BindSymbolicVars": Case({"n": 3}),
    "BundleModelParams": Case(on="weights", by=bundled),
    "ConvertLayout": Case({"relax.nn.conv2d": ["NHWC", "OHWI"]}, on="images"),
    "DecomposeOpsForTraining": Case(on="images"),
    "FastMathTransform": Case(tolerance=1e-3),
    "FewShotTuning": Case(on="kernels"),
    "LazyGetInput": Case(on="weights", by=asked_for),
    "LazySetOutput": Case(by=given_away),
    "LazyTransformParams": Case(on="lifted", by=one_by_one),
    "LiftTransformParams": Case(on="weights", by=lifted),
    "MetaScheduleApplyDatabase": Case(on="kernels"),
    "MetaScheduleTuneIRMod": Case({}, "", 1, on="kernels"),
    "MetaScheduleTuneTIR": Case("", 1, on="kernels"),
    "ToMixedPrecision": Case(tolerance=0.1),
    "UpdateParamStructInfo": Case(lambda param: None),
    "UpdateParamType": Case(lambda param: None),
}  # fmt: skip
ELSEWHERE = {
    "AllocateWorkspace": "code of others is needed: test_runtime_parts.py has a module of it",
    "AttachExternModules": "it changes no function",
    "FuseOpsByPattern": "patterns of its own: tests of code generators",
    "Gradient": "results are numbers: test_relax_gradients_random.py",
    "LowerRuntimeBuiltin": "it is VMBuiltinLower",
    "MergeCompositeFunctions": "composite functions are needed: tests of code generators",
    "RunCodegen": "a code generator is needed: tests of code generators",
    "SplitCallTIRByPattern": "patterns of kernels are needed: tests of code generators",
    "UpdateVDevice": "it renames devices: test_devices.py",
}
"""Passes that random graphs do not show here, and why."""


def test_every_pass_is_run_on_random_graphs() -> None:
    piped = {pass_of(function).title for functions in PIPELINES.values() for function in functions}
    assert {*piped, *ON_REQUEST, *ELSEWHERE} == set(relax_passes())
    assert not {*ON_REQUEST} & {*ELSEWHERE}


@pytest.mark.parametrize("title", sorted(ON_REQUEST))
@pytest.mark.parametrize("seed", range(SEEDS))
def test_graphs_compute_what_they_did(title: str, seed: int) -> None:
    case = ON_REQUEST[title]
    number = seed + sum(map(ord, title)) % 7
    graph = graph_of(case.on, number)
    mod = graph.module
    if title == "AlterOpImpl":
        mod = _named(transform.LegalizeOps()(mod))
    if title == "BindParams":
        graph = Graph(mod, [graph.args[0], np.ones((4, 4), "float32"), *graph.args[2:]])
        wanted = run(mod, *graph.args)
    else:
        wanted = wanted_of(case.on, number)
    answers = KernelTuner(lambda func, *_: func, lambda *_: None, lambda func, *_: func)
    with kernel_tuner(answers):
        made = getattr(transform, title)(*case.args, **case.named)(mod)
    assert problems(made) == []
    same_values(case.by(made, graph), wanted, case.tolerance, case.tolerance)
