"""Tuning logs."""

from tuner.faces.auto_scheduler.record import (
    RecordReader,
    RecordToFile,
    distill_record_file,
    dump_record_to_string,
    load_best_record,
    load_record_from_string,
    load_records,
    save_records,
)

__all__ = [
    "RecordReader", "RecordToFile", "distill_record_file", "dump_record_to_string", "load_best_record",
    "load_record_from_string", "load_records", "save_records",
]  # fmt: skip
