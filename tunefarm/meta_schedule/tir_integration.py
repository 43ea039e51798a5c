"""Tuning of TensorIR functions, under the module's name in TVM."""

from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.faces.meta_schedule.databases.database import Database
from tuner.faces.meta_schedule.tune import tune_tasks, tune_tir


def compile_tir(database: Database, mod: IRModule | PrimFunc, target: Target | str) -> Schedule | None:
    """The best schedule that `database` has for `mod` on `target`, or None."""
    module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
    return database.query_schedule(module, Target(target).resolved())


__all__ = ["compile_tir", "tune_tasks", "tune_tir"]
