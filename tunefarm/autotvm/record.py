"""Tuning logs."""

from tuner.faces.autotvm.record import (
    AUTOTVM_LOG_VERSION,
    decode,
    encode,
    load_from_buffer,
    load_from_file,
    measure_str_key,
    pick_best,
    split_workload,
)

__all__ = [
    "AUTOTVM_LOG_VERSION", "decode", "encode", "load_from_buffer", "load_from_file", "measure_str_key", "pick_best",
    "split_workload",
]  # fmt: skip
