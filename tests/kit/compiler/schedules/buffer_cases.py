"""Cases for the texts of functions after primitives that pad, lay out, transform and copy buffers."""

from __future__ import annotations

from compiler.schedule.core.schedule import Schedule
from tests.kit.compiler.schedules import workloads as w
from tests.kit.compiler.schedules.case import case


@case(w.matmul)
def pad_einsum(s: Schedule) -> None:
    s.pad_einsum(s.get_block("C"), [4, 4, 4])


@case(w.matmul_relu)
def pad_einsum_reduction(s: Schedule) -> None:
    s.pad_einsum(s.get_block("C"), [1, 1, 4])


@case(w.conv)
def decompose_padding(s: Schedule) -> None:
    block = s.get_block("pad_temp")
    s.decompose_padding(block, s.get_loops(block)[1])


@case(w.conv)
def decompose_padding_tiled(s: Schedule) -> None:
    """Loops that run over more than an axis keep their extents, and the copy gets conditions."""
    block = s.get_block("pad_temp")
    _, _, y, x = s.get_loops(block)
    y0, y1 = s.split(y, [None, 4])
    x0, x1 = s.split(x, [None, 4])
    s.reorder(y0, x0, y1, x1)
    s.decompose_padding(block, x0)


@case(w.chain)
def transform_layout_padded(s: Schedule) -> None:
    """A plain block fills the padding itself."""
    s.transform_layout(s.get_block("B"), "B", lambda i, j: (j // 4, i, j % 4), pad_value=0)


@case(w.matmul_relu)
def transform_layout_padded_apart(s: Schedule) -> None:
    """The padding of what a reduction writes is filled by a block of its own."""
    s.transform_layout(
        s.get_block("D"), ("read", 0), lambda i, j: [i, j // 4, j % 4], lambda i, jo, ji: i * 2 - ji
    )


@case(lambda: w.matmul(8, 11, 6))
def transform_block_layout(s: Schedule) -> None:
    s.transform_block_layout(s.get_block("C"), lambda i, j, k: (i // 4, k, j, i % 4))


@case(w.matmul)
def reindex_cache_read(s: Schedule) -> None:
    s.reindex_cache_read(s.get_block("C"), "B", "shared", lambda i, j, k: (j // 4, k, j % 4))


@case(w.matmul)
def reindex_cache_write(s: Schedule) -> None:
    s.reindex_cache_write(s.get_block("C"), 0, "local", lambda i, j, k: (j, i))


@case(w.chain)
def unsafe_set_dtype(s: Schedule) -> None:
    s.unsafe_set_dtype(s.get_block("B"), 0, "float64")


@case(w.in_place)
def cache_inplace(s: Schedule) -> None:
    s.cache_inplace(s.get_block("U"), "B", "local")


@case(w.gathered)
def cache_index(s: Schedule) -> None:
    s.cache_index(s.get_block("C"), "global")


@case(w.blur)
def rolling_buffer(s: Schedule) -> None:
    s.compute_at(s.get_block("B"), s.get_loops(s.get_block("C"))[0])
    s.rolling_buffer(s.get_block("B"), 0)


@case(w.conv)
def winograd(s: Schedule) -> None:
    s.winograd(s.get_block("conv2d_nchw"), 2, 1, 1)


@case(w.chain)
def cache_for_chosen_readers(s: Schedule) -> None:
    s.cache_write(s.get_block("B"), 0, "local", [s.get_block("C")])
    s.cache_read(s.get_block("B"), 0, "local", [s.get_block("B")])


@case(w.matmul)
def unsafe_hide_buffer_access(s: Schedule) -> None:
    s.unsafe_hide_buffer_access(s.get_block("C"), "read", [1])


@case(lambda: w.matmul(9, 15, 10))
def copy_at(s: Schedule) -> None:
    block = s.get_block("C")
    pairs = [s.split(loop, [None, size]) for loop, size in zip(s.get_loops(block), (3, 5, 2))]
    s.reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    s.read_at(pairs[2][0], block, 0, "global")
    s.read_at(pairs[1][0], block, 1, "global")
    s.write_at(pairs[1][0], block, 0, "global")
