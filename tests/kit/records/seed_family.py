"""A family with believable times, for tests of the pages."""

from __future__ import annotations

import math

from tests.kit.tuner.family_records import stored
from tuner.families.configs import FamilyConfig
from tuner.families.portfolio import TimeTable
from tuner.families.record import FamilyRecord, make_record
from tuner.families.sizes import SizeList
from tuner.records.store import RecordStore

SIZES = (1, 4, 16, 17, 32, 64, 128, 197, 256, 512)


def believable(target: str) -> FamilyRecord:
    """A dense layer: a config for few rows, one for full tiles, one for the rest; a library beside them."""
    sizes = SizeList(("M",), tuple((m,) for m in SIZES), (8, 1, 4, 1, 2, 4, 4, 1, 2, 1))
    configs = [
        FamilyConfig("rows", (("vectors", 1), ("task", 32), ("abreast", 8))),
        FamilyConfig("panels+pack", (("rows", 8), ("vectors", 3), ("panel", 4), ("unroll", 8))),
        FamilyConfig("panels+pack", (("rows", 6), ("vectors", 4), ("panel", 2), ("unroll", 1))),
    ]
    cells: dict[tuple[int, int], float | None] = {}
    for at, rows in enumerate(SIZES):
        best = 40e-6 + rows * 24e-6
        cells[0, at] = best * (1.0 + 0.25 * math.log2(rows))
        cells[1, at] = best * (1.04 + 0.3 * (-rows % 8) / rows + (0.8 if rows == 1 else 0.0))
        if rows > 1:
            cells[2, at] = best * (1.08 + 0.2 * (-rows % 6) / rows)
    table = TimeTable.of(cells, len(configs), len(SIZES))
    library = {"OpenBLAS": tuple(60e-6 + rows * 27e-6 for rows in SIZES)}
    what = {"op": "dense", "args": ["M", 3072, 768], "dtype": "float32"}
    untuned = [rows * 2e-3 for rows in SIZES]
    return make_record(
        "dense:M,3072,768:float32", what, target, sizes, configs, table, 3, lambda c, at: "{}", untuned, 210, library
    )


def seed_family(store: RecordStore, target: str, device_class: str) -> None:
    """Put it into a store."""
    store.families.add(stored(believable(target), device_class))
