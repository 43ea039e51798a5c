"""Cases for the texts of functions after primitives that pad, lay out and copy buffers."""

from __future__ import annotations

import schedule_workloads as w
from schedule_case import case

from compiler.schedule.schedule import Schedule


@case(w.matmul)
def pad_einsum(s: Schedule) -> None:
    s.pad_einsum(s.get_block("C"), [4, 4, 4])


@case(w.matmul_relu)
def pad_einsum_reduction(s: Schedule) -> None:
    s.pad_einsum(s.get_block("C"), [1, 1, 4])
