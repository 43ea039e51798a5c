"""Builders and runners."""

from tunefarm.tracker_runner import WithOwnKeys
from tuner.faces.autotvm import measure_methods as _methods
from tuner.faces.autotvm.measure_methods import LocalBuilder, LocalRunner, create_measure_batch, measure_option

__all__ = ["LocalBuilder", "LocalRunner", "RPCRunner", "create_measure_batch", "measure_option"]


class RPCRunner(WithOwnKeys, _methods.RPCRunner):
    __doc__ = _methods.RPCRunner.__doc__
