"""The schedule: a thin handle over a state and the trace of the steps that made it.

Its methods carry the names and arguments of the field's `tir.Schedule`. Each one records a step and applies it;
what a step does, with a picture, stands at its primitive (`loops`, `kinds`, `compute_at`, `inline`, `cache`,
`reduction`, `storage`, `sampling`). All raise ScheduleError for an illegal step and then leave the
schedule as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.ir.base import GlobalVar
from compiler.schedule.core.recorder import all_of, one
from compiler.schedule.core.rv import Block, BlockRV, ExprRV, LoopRV
from compiler.schedule.core.schedule_buffers import BufferSteps

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule"]

Factor = int | ExprRV | None


class Schedule(BufferSteps):
    """Schedules a function, or the functions of a module (`Recorder` has the arguments).

    What is given is not changed: `func` is the scheduled function, `mod` the module with it in place. A block is what
    `get_block` returned, or its name.
    """

    # ---------------------------------------------------------------------- blocks and loops

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called `name` of the function `func_name`, without it of the one that is worked on."""
        found = self.func_working_on if func_name is None else GlobalVar(func_name)
        home = None if found is None or found.name_hint == self.state.main else found.name_hint
        return one(BlockRV, self.take("get_block", (), name=name, func_name=home))

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
        """Split `loop` into loops of `factors` iterations, outermost first; one may be None (as many as needed).
        `disable_predication` says that they divide an extent that is not known."""
        attrs = {"preserve_unit_iters": preserve_unit_iters, "disable_predication": disable_predication}
        return all_of(LoopRV, self.take("split", (loop, *factors), **attrs))

    def loop_partition(
        self, loop: LoopRV, factors: Sequence[Factor], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Part `loop` into loops of `factors` iterations, one after another; one may be None (the rest)."""
        steps = self.take("loop_partition", (loop, *factors), preserve_unit_iters=preserve_unit_iters)
        return all_of(LoopRV, steps)

    def merge(self, *loops: LoopRV) -> LoopRV:
        """One loop of loops that stand one after another, in the same nests."""
        return one(LoopRV, self.take("merge", loops))

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """One loop of loops nested right inside one another, given outermost first."""
        return one(LoopRV, self.take("fuse", loops, preserve_unit_iters=preserve_unit_iters))

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put nested loops in this order, outermost first."""
        self.take("reorder", ordered_loops)

    def add_unit_loop(self, block_or_loop: Block | LoopRV) -> LoopRV:
        """A new loop of one iteration right around a block or loop."""
        return one(LoopRV, self.take("add_unit_loop", (block_or_loop,)))

    def blockize(self, target: LoopRV | Block | Sequence[Block], preserve_unit_iters: bool = True) -> BlockRV:
        """One block of a loop and what is in it, or of neighbouring blocks; returns the new block."""
        targets = (target,) if isinstance(target, LoopRV | BlockRV | str) else tuple(target)
        return one(BlockRV, self.take("blockize", targets, preserve_unit_iters=preserve_unit_iters))

    def reorder_block_iter_var(self, block: Block, new_order: Sequence[int]) -> None:
        """Put the axes of `block` in another order, given by their positions now."""
        self.take("reorder_block_iter_var", (block,), new_order=tuple(map(int, new_order)))

    def tensorize(
        self, block_or_loop: Block | LoopRV, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
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

    def compute_at(
        self, block: Block, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
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
        return one(BlockRV, self.take("decompose_reduction", (block, loop)))

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Reduce each iteration of `loop` apart first; returns the block of partial results."""
        return one(BlockRV, self.take("rfactor", (loop,), factor_axis=factor_axis))

    # ---------------------------------------------------------------------------- sampling

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        """One of the integers `candidates`; `decision` is its position."""
        attrs = {"candidates": tuple(map(int, candidates)), "probs": tuple(map(float, probs))}
        return one(ExprRV, self.take("sample_categorical", (), decision, **attrs))

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """`n` factors whose product is the extent of `loop`; `decision` gives them."""
        factors = None if decision is None else tuple(map(int, decision))
        attrs = {"n": n, "max_innermost_factor": max_innermost_factor}
        return all_of(ExprRV, self.take("sample_perfect_tile", (loop,), factors, **attrs))

    def sample_compute_location(self, block: Block, decision: int | None = None) -> LoopRV:
        """A loop that `block` can be computed at; `decision` is its position among them, -1 none, -2 inline."""
        return one(LoopRV, self.take("sample_compute_location", (block,), decision))

    def enter_postproc(self) -> None:
        """Mark where a search's steps end in the trace."""
        self.take("enter_postproc", ())

    def seed(self, seed: int) -> None:
        """Start the random numbers of sampling anew from `seed`."""
        self._rng = np.random.default_rng(seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from this one's random numbers."""
        return int(self._rng.integers(1, 1 << 31))

    def sample_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 64, decision: Sequence[int] | None = None
    ) -> list[ExprRV]:
        """`n` factors that cover the extent of `loop`, dividing it or not; `decision` gives all but the first."""
        factors = None if decision is None else tuple(map(int, decision))
        attrs = {"n": n, "max_innermost_factor": max_innermost_factor}
        return all_of(ExprRV, self.take("sample_tile", (loop,), factors, **attrs))
