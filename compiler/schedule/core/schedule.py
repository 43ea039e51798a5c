"""The schedule: a thin handle over a state and the trace of the steps that made it.

Its methods carry the names and arguments of TVM's `tir.Schedule`. Each one records a step and applies it. The step is
explained, with a picture, at its primitive (`compiler/schedule/primitives`). All raise ScheduleError for an illegal
step and then leave the schedule as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, overload

import numpy as np

from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.schedule.core.effects import Effects
from compiler.schedule.core.map_text import MapLike, map_text, pad_text
from compiler.schedule.core.recorder import BufferOf, RenderLevel, StepRecorder
from compiler.schedule.core.rv import RV, Block, BlockRV, ExprRV, LoopRV, all_of, one_of
from compiler.schedule.core.step import Decision, Input
from compiler.schedule.core.trace import Trace
from compiler.tir import nodes as n

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "apply_trace"]

Factor = int | ExprRV | None


class Schedule:
    """Schedules a function, or the functions of a module.

    What is given is not changed: `func` is the scheduled function, `mod` the module with it in place. A block is what
    `get_block` returned, or its name.

    `mod` is a function or a module; steps are about its function "main", or the only one, until `work_on`. `seed`
    drives sampling. `debug_mask`, "all" or a number other than 0, checks after each step that the function is well
    formed. `error_render_level` is how much errors show: "detail" (the rule and the loops), "fast" (the rule), "none".
    `enable_check` is ignored, and accepted for compatibility with TVM: each step makes its checks.
    Raises ScheduleError for functions that were lowered, IRError for what is no function or module.
    """

    def __init__(
        self, mod: n.PrimFunc | IRModule, *, seed: int | None = None, debug_mask: str | int = "none",
        error_render_level: RenderLevel = "detail", enable_check: bool = True,
    ) -> None:  # fmt: skip
        self._recorder = StepRecorder(mod, seed, debug_mask, error_render_level)

    @classmethod
    def replay(
        cls, func: n.PrimFunc | IRModule, trace: Trace, seed: int | None = None, effects: Effects | None = None
    ) -> Self:
        """The schedule that `trace` makes of `func`; open decisions are drawn from `seed`.
        Effects that `effects` knows are not computed again, and new ones are added to it."""
        sch = cls(func, seed=seed)
        sch._recorder.replay(trace, effects)
        return sch

    # ------------------------------------------------------------------------------ reading

    @property
    def func(self) -> n.PrimFunc:
        """The function that is worked on, as scheduled so far."""
        return self._recorder.func

    @property
    def mod(self) -> IRModule:
        """The module with the functions as scheduled so far."""
        return self._recorder.mod

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The name of the function in which `get_block` looks; None if none was chosen."""
        working = self._recorder.working
        return None if working is None else GlobalVar(working)

    def work_on(self, func_name: str) -> None:
        """Look for blocks in the function `func_name` of the module from now on.
        Not a step. Raises ScheduleError when there is none, or it was lowered."""
        self._recorder.work_on(func_name)

    @property
    def trace(self) -> Trace:
        """The steps so far: the record from which `apply_trace` makes this schedule again."""
        return self._recorder.trace

    @overload
    def get(self, rv: LoopRV) -> n.For: ...
    @overload
    def get(self, rv: BlockRV | str) -> n.Block: ...
    @overload
    def get(self, rv: ExprRV) -> int: ...
    def get(self, rv: RV | str) -> n.For | n.Block | int:
        """Return the current value of `rv`, or of a block's name: a loop, a block, or the decided integer."""
        return self._recorder.get(rv)

    def loop_var(self, rv: LoopRV) -> n.Var:
        """The variable of a loop of this schedule: `get(rv).loop_var`, found without a search."""
        return self._recorder.loop_var(rv)

    def name_size(self, size: n.PrimExpr) -> ExprRV:
        """A name for a size that is only known when the function runs.
        No trace can hold the steps that use it."""
        return self._recorder.name_size(size)

    def show(self) -> None:
        """Print the function."""
        print(self.func.script())

    def copy(self) -> Self:
        """Return an independent schedule in the same state. Variables made so far work in both."""
        other = type(self).__new__(type(self))
        other._recorder = self._recorder.copy()
        return other

    def take(
        self, prim: str, inputs: Sequence[Input | str], decision: Decision | None = None, **attrs: Any
    ) -> tuple[RV, ...]:
        """Apply a primitive by its name, record the step, and name its results.
        A block given by its name adds a `get_block` step first."""
        return self._recorder.take(prim, inputs, decision, **attrs)

    # ---------------------------------------------------------------------- blocks and loops

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called `name` of the function `func_name`, without it of the one that is worked on."""
        found = self.func_working_on if func_name is None else GlobalVar(func_name)
        home = None if found is None or found.name_hint == self._recorder.state.main else found.name_hint
        return one_of(BlockRV, self.take("get_block", (), name=name, func_name=home))

    def get_loops(self, block: Block) -> list[LoopRV]:
        """The loops around `block`, outermost first."""
        return all_of(LoopRV, self.take("get_loops", (block,)))

    def get_child_blocks(self, block_or_loop: Block | LoopRV) -> list[BlockRV]:
        """The blocks right inside a block or loop."""
        return all_of(BlockRV, self.take("get_child_blocks", (block_or_loop,)))

    def get_producers(self, block: Block) -> list[BlockRV]:
        """The blocks that write what `block` reads."""
        return all_of(BlockRV, self.take("get_producers", (block,)))

    def get_consumers(self, block: Block) -> list[BlockRV]:
        """The blocks that read what `block` writes."""
        return all_of(BlockRV, self.take("get_consumers", (block,)))

    def get_output_blocks(self, scope_block: Block) -> list[BlockRV]:
        """The blocks right inside a block that write an argument of the function."""
        return all_of(BlockRV, self.take("get_output_blocks", (scope_block,)))

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[Factor],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split `loop` into loops of `factors` iterations, outermost first.
        One may be None: as many as needed. `disable_predication` says that they divide an extent that is not known."""
        attrs = {"preserve_unit_iters": preserve_unit_iters, "disable_predication": disable_predication}
        return all_of(LoopRV, self.take("split", (loop, *factors), **attrs))

    def loop_partition(self, loop: LoopRV, factors: Sequence[Factor], preserve_unit_iters: bool = True) -> list[LoopRV]:
        """Part `loop` into loops of `factors` iterations, one after another; one may be None (the rest)."""
        steps = self.take("loop_partition", (loop, *factors), preserve_unit_iters=preserve_unit_iters)
        return all_of(LoopRV, steps)

    def merge(self, *loops: LoopRV) -> LoopRV:
        """One loop of loops that stand one after another, in the same nests."""
        return one_of(LoopRV, self.take("merge", loops))

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """One loop of loops nested right inside one another, given outermost first."""
        return one_of(LoopRV, self.take("fuse", loops, preserve_unit_iters=preserve_unit_iters))

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put nested loops in this order, outermost first."""
        self.take("reorder", ordered_loops)

    def add_unit_loop(self, block_or_loop: Block | LoopRV) -> LoopRV:
        """A new loop of one iteration right around a block or loop."""
        return one_of(LoopRV, self.take("add_unit_loop", (block_or_loop,)))

    def blockize(self, target: LoopRV | Block | Sequence[Block], preserve_unit_iters: bool = True) -> BlockRV:
        """One block of a loop and what is in it, or of neighbouring blocks; returns the new block."""
        targets = (target,) if isinstance(target, LoopRV | BlockRV | str) else tuple(target)
        return one_of(BlockRV, self.take("blockize", targets, preserve_unit_iters=preserve_unit_iters))

    def reorder_block_iter_var(self, block: Block, new_order: Sequence[int]) -> None:
        """Put the axes of `block` in another order, given by their positions now."""
        self.take("reorder_block_iter_var", (block,), new_order=tuple(map(int, new_order)))

    def tensorize(self, block_or_loop: Block | LoopRV, tensor_intrin: str, preserve_unit_iters: bool = True) -> None:
        """Let the tensor intrinsic `tensor_intrin` do what a loop or block does."""
        attrs: dict[str, Any] = {"tensor_intrin": tensor_intrin, "preserve_unit_iters": preserve_unit_iters}
        self.take("tensorize", (block_or_loop,), **attrs)

    # ------------------------------------------------------------------------ how loops run

    def parallel(self, loop: LoopRV) -> None:
        """Share the iterations of `loop` among threads."""
        self.take("parallel", (loop,))

    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of `loop` as lanes of vector instructions."""
        self.take("vectorize", (loop,))

    def unroll(self, loop: LoopRV) -> None:
        """Write out the iterations of `loop`."""
        self.take("unroll", (loop,))

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Run each iteration of `loop` on a device thread, such as "threadIdx.x"."""
        self.take("bind", (loop,), thread_axis=thread_axis)

    def annotate(self, block_or_loop: Block | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Note `ann_key`: `ann_val` (plain data, or what was sampled) on a block or loop."""
        if isinstance(ann_val, ExprRV):
            self.take("annotate", (block_or_loop, ann_val), ann_key=ann_key, ann_val=None)
            return
        value = tuple(ann_val) if isinstance(ann_val, list) else ann_val
        self.take("annotate", (block_or_loop,), ann_key=ann_key, ann_val=value)

    def unannotate(self, block_or_loop: Block | LoopRV, ann_key: str) -> None:
        """Take the note `ann_key` off a block or loop."""
        self.take("unannotate", (block_or_loop,), ann_key=ann_key)

    # ------------------------------------------------------------------- where blocks stand

    def compute_at(self, block: Block, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Compute in each iteration of `loop` just what is read there of `block`'s result."""
        self.take("compute_at", (block, loop), preserve_unit_loops=preserve_unit_loops, index=index)

    def reverse_compute_at(
        self, block: Block, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Consume in each iteration of `loop` just what is made there, in `block`."""
        self.take("reverse_compute_at", (block, loop), preserve_unit_loops=preserve_unit_loops, index=index)

    def compute_inline(self, block: Block) -> None:
        """Put `block`'s expression wherever its result is read."""
        self.take("compute_inline", (block,))

    def reverse_compute_inline(self, block: Block) -> None:
        """Put the elementwise `block` into the block that makes its input."""
        self.take("reverse_compute_inline", (block,))

    # -------------------------------------------------------------------------- reductions

    def decompose_reduction(self, block: Block, loop: LoopRV) -> BlockRV:
        """Take the init of `block` out, to before `loop`; returns the init block."""
        return one_of(BlockRV, self.take("decompose_reduction", (block, loop)))

    def rfactor(self, loop: LoopRV, factor_axis: int, factor_first: bool = True) -> BlockRV:
        """Reduce each iteration of `loop` apart first; returns the block of partial results.
        `factor_first` says whether those iterations are the first axis of both blocks, or come after the data axes."""
        return one_of(BlockRV, self.take("rfactor", (loop,), factor_axis=factor_axis, factor_first=factor_first))

    # ---------------------------------------------------------------------------- sampling

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        """One of the integers `candidates`; `decision` is its position."""
        attrs = {"candidates": tuple(map(int, candidates)), "probs": tuple(map(float, probs))}
        return one_of(ExprRV, self.take("sample_categorical", (), decision, **attrs))

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """`n` factors whose product is the extent of `loop`; `decision` gives them."""
        factors = None if decision is None else tuple(map(int, decision))
        attrs = {"n": n, "max_innermost_factor": max_innermost_factor}
        return all_of(ExprRV, self.take("sample_perfect_tile", (loop,), factors, **attrs))

    def sample_compute_location(self, block: Block, decision: int | None = None) -> LoopRV:
        """A loop that `block` can be computed at; `decision` is its position among them, -1 none, -2 inline."""
        return one_of(LoopRV, self.take("sample_compute_location", (block,), decision))

    def sample_partitioned_tile(
        self, loop: LoopRV, n: int, partition_pos: int = 0, innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:  # fmt: skip
        """Sample `n` factors whose product is the extent of `loop`; `decision` gives them.
        Those from `partition_pos` on multiply to a multiple of `innerpart_factor`."""
        factors = None if decision is None else tuple(map(int, decision))
        attrs = {"n": n, "partition_pos": partition_pos, "innerpart_factor": innerpart_factor}
        return all_of(ExprRV, self.take("sample_partitioned_tile", (loop,), factors, **attrs))

    def enter_postproc(self) -> None:
        """Mark where a search's steps end in the trace."""
        self.take("enter_postproc", ())

    def seed(self, seed: int) -> None:
        """Start the random numbers of sampling anew from `seed`."""
        self._recorder.rng = np.random.default_rng(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from this one's random numbers."""
        return int(self._recorder.rng.integers(1, 1 << 31))

    def sample_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 64, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """`n` factors that cover the extent of `loop`, dividing it or not; `decision` gives all but the first."""
        factors = None if decision is None else tuple(map(int, decision))
        attrs = {"n": n, "max_innermost_factor": max_innermost_factor}
        return all_of(ExprRV, self.take("sample_tile", (loop,), factors, **attrs))

    # ----------------------------------------------------------------------------- buffers

    def read_index(self, block: Block, buffer_name: str) -> int:
        """The position of the buffer called `buffer_name` among the reads of `block`. Not a step."""
        return self._recorder.index_of(block, "reads", buffer_name)

    def write_index(self, block: Block, buffer_name: str) -> int:
        """The position of the buffer called `buffer_name` among the writes of `block`. Not a step."""
        return self._recorder.index_of(block, "writes", buffer_name)

    def cache_read(
        self,
        block: Block,
        read_buffer_index: int | str | n.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[Block] = (),
    ) -> BlockRV:
        """Read a copy of a buffer, made in `storage_scope`; returns the copying block."""
        index = self._recorder.index_of(block, "reads", read_buffer_index)
        attrs: dict[str, Any] = {"read_buffer_index": index, "storage_scope": storage_scope}
        return one_of(BlockRV, self.take("cache_read", (block, *consumer_blocks), **attrs))

    def cache_write(
        self,
        block: Block,
        write_buffer_index: int | str | n.Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[Block] = (),
    ) -> BlockRV:
        """Compute into a buffer in `storage_scope` and copy it out; returns the copying block. The blocks
        `consumer_blocks` read the buffer itself."""
        index = self._recorder.index_of(block, "writes", write_buffer_index)
        attrs: dict[str, Any] = {"write_buffer_index": index, "storage_scope": storage_scope}
        return one_of(BlockRV, self.take("cache_write", (block, *consumer_blocks), **attrs))

    def cache_inplace(self, block: Block, read_buffer_index: int | str | n.Buffer, storage_scope: str) -> list[BlockRV]:
        """Let `block` read and write a copy of one buffer; returns the blocks that copy it there and back."""
        index = self._recorder.index_of(block, "reads", read_buffer_index)
        attrs: dict[str, Any] = {"read_buffer_index": index, "storage_scope": storage_scope}
        return all_of(BlockRV, self.take("cache_inplace", (block,), **attrs))

    def cache_index(self, block: Block, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute the indices in `block` ahead of it; returns the blocks that do, one an index."""
        attrs: dict[str, Any] = {"storage_scope": storage_scope, "cse_thresh": cse_thresh}
        return all_of(BlockRV, self.take("cache_index", (block,), **attrs))

    def read_at(self, loop: LoopRV, block: Block, read_buffer_index: int, storage_scope: str) -> BlockRV:
        """Copy what an iteration of `loop` reads of a buffer to `storage_scope`; returns the copying block."""
        attrs: dict[str, Any] = {"read_buffer_index": read_buffer_index, "storage_scope": storage_scope}
        return one_of(BlockRV, self.take("read_at", (loop, block), **attrs))

    def write_at(self, loop: LoopRV, block: Block, write_buffer_index: int, storage_scope: str) -> BlockRV:
        """Copy what an iteration of `loop` wrote, in `storage_scope`, to a buffer; returns the copying block."""
        attrs: dict[str, Any] = {"write_buffer_index": write_buffer_index, "storage_scope": storage_scope}
        return one_of(BlockRV, self.take("write_at", (loop, block), **attrs))

    def reindex(self, block: Block, buffer: BufferOf) -> BlockRV:
        """Use a buffer of `block` through a copy indexed by the block's axes; returns the copying block."""
        kind, index = self._recorder.place_of(block, buffer)
        attrs: dict[str, Any] = {"buffer_index": index, "buffer_index_type": kind}
        return one_of(BlockRV, self.take("reindex", (block,), **attrs))

    def reindex_cache_read(
        self, block: Block, read_buffer_index: int | str | n.Buffer, storage_scope: str, index_map: MapLike
    ) -> BlockRV:
        """Read a copy of a buffer in `storage_scope`, at `index_map` of `block`'s axes.
        Returns the copying block."""
        index = self._recorder.index_of(block, "reads", read_buffer_index)
        text = map_text("reindex_cache_read", index_map, len(self.get(block).iter_vars))
        attrs: dict[str, Any] = {"read_buffer_index": index, "storage_scope": storage_scope, "index_map": text}
        return one_of(BlockRV, self.take("reindex_cache_read", (block,), **attrs))

    def reindex_cache_write(
        self, block: Block, write_buffer_index: int | str | n.Buffer, storage_scope: str, index_map: MapLike
    ) -> BlockRV:
        """Write a buffer in `storage_scope`, at `index_map` of `block`'s axes.
        Returns the block that copies it out."""
        index = self._recorder.index_of(block, "writes", write_buffer_index)
        text = map_text("reindex_cache_write", index_map, len(self.get(block).iter_vars))
        attrs: dict[str, Any] = {"write_buffer_index": index, "storage_scope": storage_scope, "index_map": text}
        return one_of(BlockRV, self.take("reindex_cache_write", (block,), **attrs))

    def set_scope(self, block: Block, buffer_index: int | str | n.Buffer, storage_scope: str) -> None:
        """Keep a buffer that `block` writes in `storage_scope`."""
        index = self._recorder.index_of(block, "writes", buffer_index)
        self.take("set_scope", (block,), buffer_index=index, storage_scope=storage_scope)

    def unsafe_set_dtype(self, block: Block, buffer_index: int | str | n.Buffer, dtype: str) -> None:
        """Keep a buffer that `block` writes in `dtype`, which may change the result."""
        index = self._recorder.index_of(block, "writes", buffer_index)
        self.take("unsafe_set_dtype", (block,), buffer_index=index, dtype=dtype)

    def storage_align(self, block: Block, buffer_index: int, axis: int, factor: int, offset: int) -> None:
        """Set neighbours along `axis` of a buffer a multiple of `factor`, plus `offset`, apart.
        The buffer is one that `block` writes."""
        attrs: dict[str, Any] = {"buffer_index": buffer_index, "axis": axis, "factor": factor, "offset": offset}
        self.take("storage_align", (block,), **attrs)

    def unsafe_hide_buffer_access(self, block: Block, buf_type: str, buf_index_array: Sequence[int]) -> None:
        """Remove buffers from the lists that `block` reads or writes ("read", "write"), by their positions."""
        attrs: dict[str, Any] = {"buf_type": buf_type, "buf_index_array": tuple(map(int, buf_index_array))}
        self.take("unsafe_hide_buffer_access", (block,), **attrs)

    def rolling_buffer(self, block: Block, write_buffer_index: int | str | n.Buffer) -> None:
        """Keep a window of a buffer that `block` writes, and compute only what each iteration adds to it."""
        index = self._recorder.index_of(block, "writes", write_buffer_index)
        self.take("rolling_buffer", (block,), write_buffer_index=index)

    # ----------------------------------------------------------------------------- layouts

    def transform_layout(
        self, block: Block, buffer: BufferOf, index_map: MapLike, pad_value: MapLike | n.PrimExpr | float | None = None,
        *, assume_injective_transform: bool = False, sizes: Sequence[int | ExprRV] = (),
    ) -> None:  # fmt: skip
        """Lay out anew a buffer of `block`: element [i, j] moves to `index_map(i, j, *sizes)`.
        Places without an element hold `pad_value`, a number or a function of the place."""
        kind, index = self._recorder.place_of(block, buffer)
        regions = self.get(block).writes if kind == "write" else self.get(block).reads
        rank = len(regions[index].buffer.shape) if 0 <= index < len(regions) else 0
        text = map_text("transform_layout", index_map, rank + len(sizes))
        attrs: dict[str, Any] = {
            "buffer_index": index, "buffer_index_type": kind, "index_map": text,
            "pad_value": pad_text("transform_layout", pad_value, text),
            "assume_injective_transform": assume_injective_transform,
        }  # fmt: skip
        self.take("transform_layout", (block, *sizes), **attrs)

    def transform_block_layout(self, block: Block, index_map: MapLike) -> None:
        """Give `block` axes and loops at `index_map` of those it has."""
        text = map_text("transform_block_layout", index_map, len(self.get(block).iter_vars))
        self.take("transform_block_layout", (block,), index_map=text)

    # ----------------------------------------------------------------------------- padding

    def pad_einsum(self, block: Block, padding: Sequence[int]) -> None:
        """Round the extents of `block`'s axes up to multiples of `padding`, with zeros around what it reads."""
        self.take("pad_einsum", (block,), padding=tuple(map(int, padding)))

    def winograd(self, block: Block, tile: int = 2, band: int = 0, multiple: int = 1) -> list[BlockRV]:
        """Compute a convolution by fast filters, in tiles of `tile` × `tile` results.
        It works on `band` rows of tiles at a time (0: all), a multiple of `multiple`. Returns the blocks that do;
        the last is `block`."""
        return all_of(BlockRV, self.take("winograd", (block,), tile=tile, band=band, multiple=multiple))

    def decompose_padding(self, block: Block, loop: LoopRV) -> BlockRV:
        """Fill what `block` pads with its constant before `loop`, and copy only what is inside.
        Returns the block that fills."""
        return one_of(BlockRV, self.take("decompose_padding", (block, loop)))


def apply_trace(func: n.PrimFunc, trace: Trace, seed: int | None = None, effects: Effects | None = None) -> Schedule:
    """The schedule that `trace` makes of `func`; open decisions are drawn from `seed`.

    Effects that `effects` knows are not computed again, and new ones are added to it. Raises ScheduleError when a step
    is illegal on this function.
    """
    return Schedule.replay(func, trace, seed, effects)
