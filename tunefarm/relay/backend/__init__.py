"""Executors and runtimes of a network's build."""

from compiler.faces.relay.building import Executor
from tunefarm.relay.backend import executor_factory, runtime
from tunefarm.relay.backend.runtime import Runtime

__all__ = ["Executor", "Runtime", "executor_factory", "runtime"]
