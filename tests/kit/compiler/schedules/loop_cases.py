"""Cases for the texts of functions after primitives that part loops and put them together."""

from __future__ import annotations

from compiler.schedule.core.schedule import Schedule
from tests.kit.compiler import tensor_intrins
from tests.kit.compiler.schedules import workloads as w
from tests.kit.compiler.schedules.case import case


@case(w.chain)
def loop_partition(s: Schedule) -> None:
    i, _ = s.get_loops("B")
    s.loop_partition(i, [2, None, 3])
    s.loop_partition(s.get_loops("D")[1], [4])


@case(w.matmul_relu)
def loop_partition_of_a_tile(s: Schedule) -> None:
    """Tail and body of a split loop part ways; an inner nest is copied with its predicate."""
    _, j, _ = s.get_loops("C")
    j0, j1 = s.split(j, [None, 4])
    s.compute_at("C", s.get_loops("D")[0])
    del j0, j1
    s.loop_partition(s.get_loops("D")[0], [12], preserve_unit_iters=False)


@case(w.matmul)
def loop_partition_of_a_reduction(s: Schedule) -> None:
    _, _, k = s.get_loops("C")
    s.decompose_reduction("C", k)
    s.loop_partition(k, [None, 3])


@case(w.chain)
def merge(s: Schedule) -> None:
    s.merge(s.get_loops("B")[0], s.get_loops("C")[0], s.get_loops("D")[0])


@case(w.chain)
def merge_inner(s: Schedule) -> None:
    s.split(s.get_loops("B")[1], [None, 3])
    s.split(s.get_loops("C")[1], [None, 3])
    s.merge(s.get_loops("B")[1], s.get_loops("C")[1])


@case(w.chain)
def found_by_neighbours(s: Schedule) -> None:
    """Blocks that are found from others, and then moved."""
    [last] = s.get_output_blocks("root")
    [middle] = s.get_producers(last)
    first, *_ = s.get_child_blocks(s.get_block("root"))
    assert [s.get(block).name_hint for block in s.get_consumers(first)] == ["C"]
    s.compute_inline(middle)


@case(w.chain)
def block_by_name(s: Schedule) -> None:
    s.compute_inline("B")
    s.reverse_compute_at("D", s.get_loops("C")[0])


@case(lambda: w.matmul(9, 15, 10))
def tensorize_tiles_of_odd_sizes(s: Schedule) -> None:
    i, j, k = s.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = s.split(i, [None, 3]), s.split(j, [None, 5]), s.split(k, [None, 2])
    s.reorder(i0, j0, k0, i1, j1, k1)
    s.tensorize(i1, tensor_intrins.register_matmul(3, 5, 2))


@case(w.matmul)
def sample_partitioned_tile(s: Schedule) -> None:
    _, _, k = s.get_loops(s.get_block("C"))
    s.split(k, s.sample_partitioned_tile(k, 3, 1, 5, decision=[2, 5, 1]))
