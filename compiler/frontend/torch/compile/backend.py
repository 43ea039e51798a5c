"""The backend of `torch.compile`.

It takes graphs from Dynamo, by way of torch's autograd, and returns functions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils._python_dispatch import _disable_current_modes

from compiler.driver.graph import build_graph
from compiler.errors import ArgumentError, CompileError
from compiler.frontend.torch.compile.region import Region, import_region, refused_nodes
from compiler.frontend.torch.compile.split import split
from compiler.frontend.torch.compile.store import Store, default_folder, digest
from compiler.frontend.torch.compile.tensors import CompiledRegion
from compiler.frontend.torch.errors import RefusedNode
from compiler.frontend.torch.table import TABLE, functional_name
from compiler.ir.module import IRModule
from compiler.suggest import closest
from compiler.target.target import Target

log = logging.getLogger("tunefarm.torch")

Schedule = Callable[[IRModule, Target], IRModule]
"""Replaces kernels by scheduled ones."""


@dataclass(frozen=True)
class Options:
    """The options of `torch.compile(model, backend="tunefarm", options={...})`.

    trials: how many schedules to try for each kernel; 0 tunes none. api: the web app that is asked for configs.
    tracker, key: the tracker and the kind of device to measure on; "" is this machine. target: what code is made for.
    cache: the folder of executables, None for the user's; "" keeps nothing.
    """

    trials: int = 0
    api: str = ""
    tracker: str = ""
    key: str = ""
    target: str = ""
    cache: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Checked options. Raises ArgumentError for one that is not known or of another type."""
        known = cls.__dataclass_fields__
        for name, value in (given or {}).items():
            if name not in known:
                raise ArgumentError(
                    f"the backend tunefarm has no option {name!r}", hint=closest(name, known) or ", ".join(known)
                )
            wanted = int if name == "trials" else str
            if not isinstance(value, wanted) or isinstance(value, bool):
                raise ArgumentError(f"the option {name!r} is {value!r}, and no {wanted.__name__}")
        options = cls(**(given or {}))
        if options.trials < 0:
            raise ArgumentError(f"the option 'trials' is {options.trials}")
        if options.tracker and not options.key:
            raise ArgumentError("the option 'tracker' needs 'key', the kind of device to ask it for")
        return options

    @property
    def folder(self) -> Path | None:
        """Where executables are kept."""
        if self.cache is None:
            return default_folder()
        return Path(self.cache).expanduser() if self.cache else None


@dataclass(frozen=True)
class GraphReport:
    """The outcome for one graph. `kept` maps operators that stay with torch, or reasons, to their nodes.

    regions: how many parts are machine code, `cached` of which were on disk. `breaks`: why Dynamo broke the model
    before this graph, since the last one.
    """

    nodes: int
    regions: int
    cached: int
    kept: Mapping[str, Sequence[str]]
    breaks: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        left = sum(map(len, self.kept.values()))
        lines = [f"a graph of {self.nodes} operators: {self.regions} compiled ({self.cached} from the cache), "]
        lines[0] += f"{left} operators stay with torch, {self.seconds:.1f} s"
        lines += [f"  with torch: {name}: {', '.join(nodes[:3])}" for name, nodes in sorted(self.kept.items())]
        lines += [f"  graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)


@dataclass
class _Told:
    """The reports so far: one for each graph, and the graph breaks."""

    reports: list[GraphReport] = field(default_factory=list)
    breaks: dict[str, int] = field(default_factory=dict)


_told = _Told()


def reports() -> list[GraphReport]:
    """Return what became of each graph since the process began, or since `clear_reports`."""
    return list(_told.reports)


def clear_reports() -> None:
    """Forget the reports."""
    _told.reports.clear()


def compile_graph(
    graph_module: Any, inputs: Sequence[Any], options: Options, schedule: Schedule | None = None
) -> Callable[..., Any]:
    """Return what Dynamo calls in the place of a graph.

    `schedule` tunes kernels, or finds schedules for them. Graphs without gradients are compiled; for training, torch
    runs forward and backward graphs itself.
    """

    def inference(module: Any, _: Sequence[Any]) -> Callable[..., Any]:
        return _compiled(module, options, schedule)

    def training(module: Any, _: Sequence[Any]) -> Callable[..., Any]:
        return _report(module, 0, 0, {"a graph of a model that trains": [node.name for node in _calls(module)]}, 0.0)

    make = aot_autograd(
        fw_compiler=training, bw_compiler=training, inference_compiler=inference, decompositions=_decompositions()
    )
    result: Callable[..., Any] = make(graph_module, inputs)
    return result


def _decompositions() -> dict[Any, Any]:
    """Torch's own decompositions of operators that have no converter."""
    table = core_aten_decompositions()
    return {operator: way for operator, way in table.items() if functional_name(str(operator)) not in TABLE}


def _calls(module: Any) -> list[Any]:
    return [node for node in module.graph.nodes if node.op == "call_function"]


def _compiled(module: Any, options: Options, schedule: Schedule | None) -> Callable[..., Any]:
    """A graph of ATen operators as a function."""
    with _disable_current_modes():  # tensors are made and read here, not traced
        return _parts(module, options, schedule)


def _parts(module: Any, options: Options, schedule: Schedule | None) -> Callable[..., Any]:
    start = time.monotonic()
    placed = [node.name for node in module.graph.nodes if _elsewhere(node)]
    if placed:
        return _report(module, 0, 0, {"tensors of another device than the CPU": placed}, start)
    builder = _Builder(options, schedule)
    try:
        kept = refused_nodes(module)
    except RefusedNode as why:
        return _report(module, 0, 0, {str(why): [node.name for node in _calls(module)]}, start)
    if not kept and _calls(module):
        compiled = builder.region(module)
        if compiled is not None:
            _report(module, 1, builder.cached, {}, start)
            return _boxed(compiled)
    refused, nodes = [name for names in kept.values() for name in names], len(_calls(module))
    mixed, count = split(module, refused, builder.region)
    return _report(mixed, count, builder.cached, {**kept, **builder.refused}, start, nodes)


def _boxed(compiled: CompiledRegion) -> Callable[..., Any]:
    """A region as a function that takes its arguments in a list, and gives a list."""
    single, forward = compiled.single, compiled.forward

    def call(*args: Any) -> Any:
        found = forward(*args)
        return [found] if single else found

    result: Callable[..., Any] = make_boxed_func(call)
    return result


def _elsewhere(node: Any) -> bool:
    """Whether a node's tensor is on a device that kernels of this CPU cannot reach."""
    value = node.meta.get("val")
    return hasattr(value, "device") and value.device.type != "cpu"


class _Builder:
    """Compiles the parts of one graph."""

    def __init__(self, options: Options, schedule: Schedule | None) -> None:
        self._options = options
        self._schedule = schedule
        self._target = Target(options.target).resolved() if options.target else Target.current_or_default().resolved()
        self._store = Store(options.folder)
        self.cached = 0
        self.refused: dict[str, list[str]] = {}

    def region(self, module: Any) -> CompiledRegion | None:
        """Compile a part to machine code. None if that cannot be done; the report says why."""
        try:
            region = import_region(module)
            executable, found = self._store.find_or_build(self._name(region), lambda: self._build(region))
        except (CompileError, RefusedNode) as why:
            text = why.message if isinstance(why, CompileError) else str(why)
            self.refused.setdefault(f"a part that cannot be compiled ({text})", []).extend(
                node.name for node in _calls(module)
            )
            return None
        self.cached += found
        return CompiledRegion(region, executable)

    def _name(self, region: Region) -> str:
        options = self._options
        extra = [f"{options.trials} trials, {options.api}, {options.tracker}, {options.key}"] if self._schedule else []
        return digest(region.module, self._target, extra)

    def _build(self, region: Region) -> Any:
        pipeline: Any = "default"
        if self._schedule is not None:
            schedule, target = self._schedule, self._target
            pipeline = lambda kernels: schedule(kernels, target)  # noqa: E731
        return build_graph(region.module, self._target, tir_pipeline=pipeline, exec_mode="compiled")


def _report(
    module: Any, regions: int, cached: int, kept: Mapping[str, list[str]], start: float, nodes: int | None = None
) -> Callable[..., Any]:
    """Keep and log what became of a graph; the graph as torch runs it."""
    breaks = []
    for reason, times in (*counters["graph_break"].items(), *counters["unimplemented"].items()):
        if times > _told.breaks.get(reason, 0):
            breaks.append(str(reason).partition("\n")[0])
        _told.breaks[reason] = times
    seconds = time.monotonic() - start if start else 0.0
    count = len(_calls(module)) if nodes is None else nodes
    report = GraphReport(count, regions, cached, kept, tuple(breaks), seconds)
    _told.reports.append(report)
    log.log(logging.WARNING if kept or breaks else logging.INFO, "%s", report)
    result: Callable[..., Any] = make_boxed_func(module.forward)
    return result
