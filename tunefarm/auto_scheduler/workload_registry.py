"""Workloads by name."""

from tuner.faces.auto_scheduler.workload_registry import (
    decode_workload_key,
    make_workload_key,
    register_workload,
    register_workload_tensors,
    workload_func_name,
    workload_key_to_tensors,
)

__all__ = [
    "decode_workload_key",
    "make_workload_key",
    "register_workload",
    "register_workload_tensors",
    "workload_func_name",
    "workload_key_to_tensors",
]  # fmt: skip
