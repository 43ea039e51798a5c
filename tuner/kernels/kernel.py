"""A kernel of your own as a task that the engine tunes like any other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from compiler.artifact import Artifact
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.intrin import intrin
from tuner.build.worker import FuncSource, MakeSource, Source, pack_func
from tuner.engine.plan import TaskSearch
from tuner.errors import TuningError
from tuner.kernels.csource import CSource
from tuner.kernels.python_source import PythonSource
from tuner.kernels.space import Config, ConfigSketch, KernelSpace, config_of
from tuner.search.base import Candidate, Proposal
from tuner.search.registry import make_strategy
from tuner.task import TuningTask

Made = n.PrimFunc | Artifact


@dataclass(frozen=True)
class FunctionKernel:
    """A kernel that `make(config)` gives: the function (scheduled or not) or the artifact.
    It runs in build workers, so it is a function of a module. `reference` computes what every config has to: the
    function as it is defined."""

    name: str
    make: Callable[[Config], Made]
    space: KernelSpace
    reference: n.PrimFunc

    def task(self, target: Target) -> TuningTask:
        """The engine's task.
        Its key is its own: a config of it is no schedule of the function, and the other way round."""
        parameters = " ".join(sorted(self.space.parameters))
        return TuningTask(self.name, self.reference.with_attr("tunefarm.parameters", parameters), target)

    def source(self, target: Target, config: Config | None) -> Source:
        """Return what to build for `config`, or for the reference."""
        del target
        if config is None:
            return FuncSource(pack_func(self.reference))
        return MakeSource(partial(self.make, dict(config)))


@dataclass(frozen=True)
class CKernel:
    """C source with parameters.
    `reference` is a config whose result is right and whose time is the baseline; `flops` the operations of a call,
    from which its speed is told. `rival` is a function that does the same: with it, results and times are compared
    with that. Reports call it `rival_name`, or as its function is called."""

    name: str
    source_code: CSource
    space: KernelSpace
    reference: Config
    flops: float | None = None
    rival: CSource | PythonSource | None = None
    rival_name: str = ""

    def __post_init__(self) -> None:
        self.space.check(self.reference)
        if self.rival is not None and self.rival.arguments != self.source_code.arguments:
            raise TuningError(f"{self.rival.entry} does not take the arguments of {self.source_code.entry}")

    def task(self, target: Target) -> TuningTask:
        """The engine's task; its function only names the source and its arguments."""
        baseline = "" if self.rival is None else self.rival_name or self.rival.entry
        func = _signature(self.name, self.source_code)
        return TuningTask(self.name, func, target, operations=self.flops, baseline=baseline)

    def source(self, target: Target, config: Config | None) -> Source:
        """Return what to build for `config`, or for the reference."""
        if config is None and self.rival is not None:
            return MakeSource(partial(self.rival.compile, {}, str(target)))
        chosen = self.reference if config is None else config
        return MakeSource(partial(self.source_code.compile, dict(chosen), str(target)))


Kernel = FunctionKernel | CKernel


def kernel_search(
    kernel: Kernel, target: Target | str, strategy: str = "evolutionary", seed: int = 0, weight: float = 1.0,
    sketch: ConfigSketch | None = None,
) -> TaskSearch:  # fmt: skip
    """The kernel's task with its space, or `sketch` of it.

    Raises TuningError for an unknown strategy, or when no config is allowed.
    """
    resolved = Target(target).resolved()
    sketch = sketch or kernel.space.sketch(kernel.name)
    search = make_strategy(strategy, (sketch,), seed, ())

    def recognise(digest: str, text: str) -> Proposal | None:
        try:
            config = config_of(text)
            point = tuple(list(values).index(config[name]) for name, values in kernel.space.parameters.items())
        except (TuningError, LookupError, ValueError):
            return None
        candidate = Candidate(sketch, point)
        return candidate if candidate.digest == digest else None

    def source(candidate: Proposal | None) -> Source:
        return kernel.source(resolved, None if candidate is None else config_of(candidate.trace_json))

    return TaskSearch(kernel.task(resolved), search, recognise, source, weight)


def _signature(name: str, source: CSource) -> n.PrimFunc:
    """A function with the kernel's arguments that stands for it in the store.
    Its key changes with the source and its includes."""
    included = [source.headers] if source.headers else []
    included += [source.more] if source.more else []
    facts = json.dumps([source.text, source.entry, source.compiler, *included])
    symbol = f"{source.entry}_{hashlib.sha256(facts.encode()).hexdigest()[:32]}"
    buffers = [n.decl_buffer(a.shape, a.dtype, name=a.name) for a in source.arguments]
    params = tuple(n.Var(f"{a.name}_handle", "handle") for a in source.arguments)
    body = n.Evaluate(intrin.call_extern("int32", symbol))
    return n.PrimFunc(params, body, None, dict(zip(params, buffers)), {"global_symbol": source.entry})
