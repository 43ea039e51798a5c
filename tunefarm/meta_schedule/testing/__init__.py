"""Workloads, spaces and servers that tests and benchmarks of meta_schedule are written with."""

from tunefarm.meta_schedule.testing import dummy_object, local_rpc, space_generation, te_workload, tune_utils

__all__ = ["dummy_object", "local_rpc", "space_generation", "te_workload", "tune_utils"]
