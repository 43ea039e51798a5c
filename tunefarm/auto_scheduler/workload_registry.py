"""Workloads by name."""

from tuner.faces.auto_scheduler.workload_registry import (
    WORKLOAD_FUNC_REGISTRY,
    decode_workload_key,
    deserialize_workload_registry_entry,
    make_workload_key,
    register_workload,
    register_workload_tensors,
    serialize_workload_registry_entry,
    workload_func_name,
    workload_key_to_tensors,
)

__all__ = [
    "WORKLOAD_FUNC_REGISTRY", "decode_workload_key", "deserialize_workload_registry_entry", "make_workload_key",
    "register_workload", "register_workload_tensors", "serialize_workload_registry_entry", "workload_func_name",
    "workload_key_to_tensors",
]  # fmt: skip
