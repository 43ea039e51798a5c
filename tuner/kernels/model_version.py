"""A model's file as the record store knows it.

Its digest, its kernels with their calls, and its graph as a picture.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from compiler.driver.graph import unscheduled
from compiler.frontend.model_files import ModelFile, read_model_file, split_model_file
from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.relax.nodes import Call, Function, If, SeqExpr, Var
from compiler.target.target import Target
from tuner.engine.store_rows import workload_row
from tuner.kernels.model import ModelFamily, ModelKernel, families_in, kernels_in
from tuner.kernels.spec import SpecError
from tuner.records.model_store.facts import GraphCall, NewModelTask, NewModelVersion
from tuner.task import TuningTask

KIND = "llvm"
"""The kind of target that kernels of models are tuned for unless another one is said."""


@dataclass(frozen=True)
class ModelSource:
    """A model as a command line names it: FILE or FILE.py:NAME, with sizes of symbolic dimensions.
    `file_digest` is the file's sha256."""

    text: str
    path: Path
    attribute: str
    sizes: tuple[tuple[str, int], ...]
    file_digest: str
    file_bytes: int

    @property
    def name(self) -> str:
        return self.attribute or self.path.stem

    @property
    def form(self) -> str:
        """The kind of file: "onnx", "pt2", "py"."""
        return self.path.suffix.removeprefix(".")

    @property
    def digest(self) -> str:
        """The version's digest: the file's, unless the file has several models or sizes were fixed."""
        if not self.attribute and not self.sizes:
            return self.file_digest
        facts = [self.file_digest, self.attribute, dict(sorted(self.sizes))]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def read(self) -> ModelFile:
        """The model with its sizes. Raises what its frontend raises."""
        return read_model_file(self.text).with_sizes(dict(self.sizes))


def model_source(text: str, sizes: Mapping[str, int] | None = None) -> ModelSource:
    """The model that FILE or FILE.py:NAME names. Raises SpecError for a file that cannot be read."""
    path, attribute = split_model_file(text)
    if not path.exists():
        raise SpecError(f"there is no file {path}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path} can't be read: {error.strerror}") from None
    fixed = tuple(sorted((sizes or {}).items()))
    return ModelSource(text, path.resolve(), attribute, fixed, hashlib.sha256(content).hexdigest(), len(content))


@dataclass(frozen=True)
class ModelPlan:
    """The plan of a model's build: its kernels, those with the most work first, and its graph's calls.
    `families` are kernels whose sizes only a call tells."""

    kernels: tuple[ModelKernel, ...]
    graph: tuple[GraphCall, ...]
    families: tuple[ModelFamily, ...] = ()


@lru_cache(maxsize=4)
def plan_of(source: ModelSource, target: str = KIND) -> ModelPlan:
    """The kernels and the graph of a model for a target."""
    return plan_of_module(source.read().module, Target(target))


def plan_of_module(module: IRModule, target: Target) -> ModelPlan:
    """The same of a module of graphs."""
    fused = unscheduled(module, target.resolved())
    kernels = kernels_in(fused)
    keys = {name: kernel.key for kernel in kernels for name in kernel.names}
    main = fused.get("main")
    calls = graph_calls(main, keys) if isinstance(main, Function) else ()
    return ModelPlan(kernels, calls, families_in(fused))


def graph_calls(main: Function, keys: Mapping[str, str]) -> tuple[GraphCall, ...]:
    """The calls of a function in order. `keys` are workloads' keys by the names of kernels that are tuned.

    Branches are drawn one after the other. Tuples and other names of a value are looked through.
    """
    found: list[GraphCall] = []
    makers: dict[object, tuple[int, ...]] = {}
    if isinstance(main.body, SeqExpr):
        _follow(main.body, found, makers, keys)
    return tuple(found)


def _follow(
    body: SeqExpr, found: list[GraphCall], makers: dict[object, tuple[int, ...]], keys: Mapping[str, str]
) -> tuple[int, ...]:
    """The numbers of the calls that make the body's value."""
    for block in body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, If):
                branches = [_follow(each, found, makers, keys) for each in (value.true_branch, value.false_branch)]
                makers[binding.var.vid] = tuple(sorted({at for branch in branches for at in branch}))
                continue
            inputs = _makers(value, makers)
            if isinstance(value, Call):
                name = _call_name(value)
                found.append(GraphCall(name=name, workload=keys.get(name), inputs=inputs))
                inputs = (len(found) - 1,)
            makers[binding.var.vid] = inputs
    return _makers(body.body, makers)


def _makers(value: object, makers: Mapping[object, Sequence[int]]) -> tuple[int, ...]:
    used = (node.vid for node in walk(value) if isinstance(node, Var))  # type: ignore[arg-type]
    return tuple(sorted({at for vid in used for at in makers.get(vid, ())}))


def _call_name(call: Call) -> str:
    first = call.args[0] if call.args else None
    if isinstance(call.op, Op):
        return first.name_hint if isinstance(first, GlobalVar) else call.op.name.removeprefix("relax.")
    return call.op.name_hint if isinstance(call.op, GlobalVar) else "call"


def version_of(source: ModelSource, kind: str = KIND) -> NewModelVersion:
    """The model as the store takes it."""
    target = Target(kind)
    plan = plan_of(source, kind)
    return NewModelVersion(
        name=source.name,
        digest=source.digest,
        file_digest=source.file_digest,
        form=source.form,
        kind=kind,
        sizes=dict(source.sizes),
        file_bytes=source.file_bytes,
        graph=plan.graph,
        tasks=tuple(
            NewModelTask(
                workload=workload_row(TuningTask(kernel.name, kernel.func, target)),
                names=kernel.names,
                calls=kernel.weight,
            )
            for kernel in plan.kernels
        ),
    )
