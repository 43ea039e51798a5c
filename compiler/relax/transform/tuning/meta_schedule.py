"""Kernels are tuned, or scheduled as records say."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.transform.passes import relax_pass
from compiler.relax.transform.tuning.kernel_tuner import asked, unscheduled, with_schedules
from compiler.target.target import Target


@relax_pass("MetaScheduleApplyDatabase")
def apply_database(
    mod: IRModule, context: PassContext, *, work_dir: str | None = None, enable_warning: bool = False
) -> IRModule:
    """Schedule each kernel as the best record of it says.

        def matmul(A, B, C):              def matmul(A, B, C):
            for i, j, k in …:      →          T.func_attr({"tir.is_scheduled": True})
                                              for i_0, j_0, i_1, j_1 in …:

    Records are those of the folder `work_dir`, else of the database that is entered (`with database:`). The target is
    the one entered, else this machine's CPU. `enable_warning` warns of each kernel without a record.
    """
    target, tuner = Target.current_or_default(), asked()
    found = {}
    for name, func in unscheduled(mod).items():
        made = tuner.find(func, target, work_dir)
        if made is not None:
            found[name] = made
        elif enable_warning:
            warnings.warn(f"there is no record of the kernel {name.name_hint} for {target}", stacklevel=2)
    return with_schedules(mod, found)


@relax_pass("MetaScheduleTuneTIR")
def tune_tir(mod: IRModule, context: PassContext, *, work_dir: str, max_trials_global: int) -> IRModule:
    """Tune the kernels of a module, and record what is found in a folder; the module stays as it is.

    def matmul(A, B, C): …    →    the same; `work_dir` has records of matmul

    `MetaScheduleApplyDatabase` takes them from there.
    """
    _tune(mod, work_dir, max_trials_global, None, None)
    return mod


@relax_pass("MetaScheduleTuneIRMod")
def tune_module(
    mod: IRModule, context: PassContext, *, params: Mapping[str, Any], work_dir: str, max_trials_global: int,
    max_trials_per_task: int | None = None, op_names: Sequence[str] | None = None,
) -> IRModule:  # fmt: skip
    """Tune the kernels that a model's graphs call, and record what is found in a folder.

    The module stays as it is.

    lv = R.call_tir(cls.matmul, …)    →    the same; `work_dir` has records of matmul

    `params` are the model's weights, by name: they decide nothing here. `op_names` leaves out all kernels but those
    whose names contain one of them.
    """
    _tune(mod, work_dir, max_trials_global, max_trials_per_task, op_names)
    return mod


def _tune(mod: IRModule, work_dir: str, most: int, each: int | None, op_names: Sequence[str] | None) -> None:
    if most < 1:
        raise ArgumentError(f"max_trials_global is {most}, it must be positive")
    kernels = {
        name.name_hint: func
        for name, func in unscheduled(mod).items()
        if op_names is None or any(part in name.name_hint for part in op_names)
    }
    if kernels:
        asked().tune(kernels, Target.current_or_default(), work_dir, most, each)


@relax_pass("FewShotTuning")
def few_shot_tuning(
    mod: IRModule, context: PassContext, *, valid_count: int = 1, benchmark: bool = False
) -> IRModule:
    """Schedule each kernel by one of few schedules, without a long search.

        def matmul(A, B, C):              def matmul(A, B, C):
            for i, j, k in …:      →          T.func_attr({"tir.is_scheduled": True})
                                              for i_0, j_0, i_1, j_1 in …:

    It takes the first of `valid_count` schedules, which the model ranks highest, or with `benchmark` the fastest of
    them here.
    """
    if valid_count < 1:
        raise ArgumentError(f"valid_count is {valid_count}, it must be positive")
    target, tuner = Target.current_or_default(), asked()
    chosen = {name: tuner.choose(func, target, valid_count, benchmark) for name, func in unscheduled(mod).items()}
    return with_schedules(mod, {name: func for name, func in chosen.items() if func is not None})
