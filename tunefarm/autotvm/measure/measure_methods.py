"""Builders and runners."""

from tunefarm.tracker_runner import WithOwnKeys
from tuner.faces.autotvm import measure_methods as _methods
from tuner.faces.autotvm.measure_methods import (
    DefaultModuleLoader,
    LocalBuilder,
    LocalRunner,
    create_measure_batch,
    default_module_loader,
    measure_option,
)
from tuner.faces.autotvm.own_measuring import BuiltConfig as BuildResult

__all__ = [
    "BuildResult",
    "DefaultModuleLoader",
    "LocalBuilder",
    "LocalRunner",
    "RPCRunner",
    "create_measure_batch",
    "default_module_loader",
    "measure_option",
]


class RPCRunner(WithOwnKeys, _methods.RPCRunner):
    __doc__ = _methods.RPCRunner.__doc__
