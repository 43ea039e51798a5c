"""Builders and runners."""

from tuner.autotvm.measure_methods import LocalBuilder, LocalRunner, RPCRunner, create_measure_batch, measure_option

__all__ = ["LocalBuilder", "LocalRunner", "RPCRunner", "create_measure_batch", "measure_option"]
