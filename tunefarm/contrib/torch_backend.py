"""The backend "tunefarm" of `torch.compile`, which torch finds by itself: nothing has to be imported.

    compiled = torch.compile(model.eval(), backend="tunefarm")
    with torch.no_grad():
        y = compiled(x)

What became of each graph is in `reports()`, and in the log "tunefarm.torch".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from compiler.frontend.torch.compile.backend import (
    GraphReport,
    Options,
    Schedule,
    clear_reports,
    compile_graph,
    reports,
)
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.lower.blocks.shape_vars import shape_vars
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc, prim_funcs
from tunefarm.client import Client
from tunefarm.settings import load as load_settings
from tuner.faces.meta_schedule.runner import RPCConfig, RPCRunner
from tuner.faces.meta_schedule.tune import tune_tir

__all__ = ["GraphReport", "backend", "clear_reports", "reports"]


def backend(
    graph_module: Any, inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph that Dynamo traced. `options` are those of `Options`; `mode` changes nothing.

    Raises ArgumentError for an option that is not known.
    """
    chosen = Options.of(options)
    return compile_graph(graph_module, inputs, chosen, _schedule(chosen))


def _schedule(options: Options) -> Schedule | None:
    """Return what finds schedules: the web app's configs first, then trials of kernels without any."""
    if not options.api and not options.trials:
        return None

    def schedule(kernels: IRModule, target: Target) -> IRModule:
        fixed = {name: func for name, func in prim_funcs(kernels).items() if not shape_vars(func)}
        found = _asked(fixed, target, options.api) if options.api else {}
        if options.trials:
            found |= _tuned({name: func for name, func in fixed.items() if name not in found}, target, options)
        return kernels.with_functions({**kernels.functions, **found})

    return schedule


def _asked(kernels: Mapping[GlobalVar, PrimFunc], target: Target, api: str) -> dict[GlobalVar, PrimFunc]:
    """The kernels that the web app has configs for, scheduled. Raises ApiError where it does not answer."""
    with Client(api, token=load_settings().api_token) as client:
        replies = client.best_batch(list(kernels.values()), target)
    found = {}
    for (name, func), reply in zip(kernels.items(), replies):
        if reply.as_written:
            found[name] = func
        elif reply.trace is not None:
            found[name] = apply_trace(func, Trace.from_json(reply.trace)).func
    return found


def _tuned(kernels: Mapping[GlobalVar, PrimFunc], target: Target, options: Options) -> dict[GlobalVar, PrimFunc]:
    """The kernels scheduled the best way that trials found. Records are kept beside the executables."""
    if not kernels:
        return {}
    with ExitStack() as stack:
        if options.folder is None:
            folder = stack.enter_context(TemporaryDirectory())
        else:
            folder = str(options.folder / "records")
        runner: Any = "local"
        if options.tracker:
            host, _, port = options.tracker.rpartition(":")
            runner = RPCRunner(RPCConfig(host, port, options.key))
        database = tune_tir(
            IRModule(dict(kernels)),
            target,
            folder,
            max_trials_global=options.trials * len(kernels),
            max_trials_per_task=options.trials,
            runner=runner,
        )
        found = {}
        for name, func in kernels.items():
            schedule = database.query_schedule(IRModule({"main": func}), target)
            if schedule is not None:
                found[name] = schedule.func
        return found
