"""Building Relay programs."""

from compiler.faces.relay.building import GraphExecutorFactoryModule, ProgramExecutor, build, create_executor
from compiler.faces.relay.passes import bind_params_by_name

__all__ = ["GraphExecutorFactoryModule", "ProgramExecutor", "bind_params_by_name", "build", "create_executor"]
