"""A stage: the record of how to compute one operation.

A primitive only checks its arguments and makes a note. `compiler.te.schedule.replay` applies the notes when the
schedule is lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from compiler.ir.base import Span
from compiler.te.scan import ScanOp
from compiler.te.schedule.loop_record import LoopRecord, ScheduleArgumentError, axis_name
from compiler.te.schedule.relations import AttachType
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from compiler.te.where import caller_span, here
from compiler.tir import ops
from compiler.tir.nodes import IterType, IterVar, PrimExpr

if TYPE_CHECKING:
    from compiler.te.schedule.schedule import Schedule

__all__ = ["ScheduleArgumentError", "Stage", "StageGroup"]


class Stage(LoopRecord):
    """How `op` is computed: its loop nest, and where it stands.

    `op` is the operation as the schedule has rewritten it (caching replaces bodies), `origin_op` the one the
    user made. `leaf_iter_vars` are the loops from the outermost in; `all_iter_vars` also holds the
    axes that were split or fused away, `relations` says how. A derived axis has no domain before lowering.
    """

    def __init__(self, op: Operation, schedule: Schedule) -> None:
        self.op = op
        self.origin_op = op
        self.schedule = schedule
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: Stage | None = None
        self.attach_span: Span | None = None
        self.store_stage: Stage | None = None
        self.store_ivar: IterVar | None = None
        self.scope = ""
        self.is_output = False
        self.group: Stage | None = None
        self.store_predicate: PrimExpr | None = None
        self.threads: tuple[IterVar, ...] = ()
        self.double_buffered = False
        self.rolled = False
        self.alignments: dict[IterVar, tuple[int, int]] = {}
        self.said_at: dict[str, Span | None] = {}  # the user's line of primitives that are carried out last
        super().__init__()

    def __repr__(self) -> str:
        return f"Stage({self.op.name}: {self._leaves()})"

    @property
    def store_pred(self) -> PrimExpr | None:
        """The condition for a value to be stored (`set_store_predicate`)."""
        return self.store_predicate

    @property
    def compute_pred(self) -> PrimExpr | None:
        """The condition of storing a value. A value that is not stored is not computed."""
        return self.store_predicate

    @property
    def is_specialized(self) -> bool:
        """Whether a tensor intrinsic computes part of it."""
        return any(map(self.tensorized, self.leaves))

    # ------------------------------------------------------------------------------ where

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute, in each iteration of the loop `scope` of `parent`, just what that iteration needs.

        Raises ScheduleError when `scope` is not a leaf of `parent`, or this stage is an input or `parent`.

            for i: B[i] = ...         →   for i:
            for i: C[i] = B[i] ...            B[i] = ...
                                              C[i] = B[i] ...
        """
        self._placeable("compute_at")
        if parent is self:
            raise self._illegal("compute_at", f"stage {self.name!r} cannot be computed at itself")
        self._attach(AttachType.SCOPE, parent, self._loop_of("compute_at", parent, scope))

    def compute_inline(self) -> None:
        """Put the element's expression wherever it is read. Raises ScheduleError for a reduction, for an
        output and for an input.

            for i: B[i] = A[i] + 1    →   for i: C[i] = (A[i] + 1) * 2
            for i: C[i] = B[i] * 2
        """
        op = self._computed("compute_inline")
        if op.reduction is not None:
            raise self._illegal(
                "compute_inline",
                f"stage {self.name!r} is a reduction, which is no single expression",
                hint="use compute_at",
            )
        if op.num_outputs > 1:
            rule = f"stage {self.name!r} has {op.num_outputs} outputs"
            raise self._illegal("compute_inline", rule, hint="use compute_at")
        if self.is_output:
            raise self._illegal("compute_inline", f"stage {self.name!r} is an output of the schedule")
        self._attach(AttachType.INLINE)

    def compute_root(self) -> None:
        """Compute the whole tensor before its consumers: how every stage begins."""
        self._attach(AttachType.GROUP_ROOT)

    def _attach(self, how: AttachType, parent: Stage | None = None, axis: IterVar | None = None) -> None:
        self.attach_type, self.attach_stage, self.attach_ivar = how, parent, axis
        self.attach_span = caller_span()

    def attachment(self) -> Stage:
        """Return the stage whose `attach_stage` and `attach_ivar` place this one.
        It is its group if it is placed with a group, else itself."""
        stage = self
        while stage.attach_type is AttachType.GROUP_ROOT and stage.group is not None:
            stage = stage.group
        return stage

    def env_threads(self, threads: IterVar | Sequence[IterVar]) -> None:
        """Compute the stage in every thread of `threads`: thread axes with a domain, around all of its loops.

        Each thread then computes every element; `set_store_predicate` lets one of them store it.

            for i: B[i] = ...         →   for tx in thread_binding(8, "threadIdx.x"):
                                              for i: B[i] = ...
        """
        self._computed("env_threads")
        items = tuple(threads) if isinstance(threads, tuple | list) else (threads,)
        for item in items:
            if not isinstance(item, IterVar) or item.iter_type is not IterType.THREAD_INDEX or item.dom is None:
                raise self._illegal(
                    "env_threads",
                    f"{axis_name(item)!r} is no thread axis with a domain",
                    hint='for example te.thread_axis((0, 32), "threadIdx.x")',
                )
        self.threads = items
        self.said_at["env_threads"] = caller_span()

    # -------------------------------------------------------------------------------- storage

    def store_at(self, parent: Stage, scope: IterVar) -> None:
        """Keep the result in memory that lives for one iteration of the loop `scope` of `parent`.

        That loop is around the one where it is computed. Without it, memory lives for one iteration of the innermost
        loop around all that uses it.

            for i:                        for i:
                for j:                →       alloc B[8, 4]
                    alloc B[4]                for j:
                    B[...] = ...                  B[j, ...] = ...
        """
        self._computed("store_at")
        if self.is_output:
            raise self._illegal("store_at", f"stage {self.name!r} is an output: the caller owns its memory")
        self.store_stage, self.store_ivar = parent, self._loop_of("store_at", parent, scope)
        self.said_at["store_at"] = caller_span()

    def set_scope(self, scope: str) -> None:
        """Keep the result in memory `scope` ("global", "local", "shared", ...)."""
        self._computed("set_scope")
        self.scope = scope

    def set_store_predicate(self, predicate: Any) -> None:
        """Compute and store only where `predicate` holds.

        It may speak of this stage's axes and of thread axes that loops around it are bound to.

            for tx in threads: B[0] = A[0]    →   for tx in threads:
                                                      if tx == 0: B[0] = A[0]
        """
        self._computed("set_store_predicate")
        condition = ops.as_expr(predicate)
        if condition.dtype != "bool":
            raise self._illegal("set_store_predicate", f"the predicate is {condition.dtype}, not a condition")
        self.store_predicate = condition
        self.said_at["set_store_predicate"] = caller_span()

    def double_buffer(self) -> None:
        """Keep two copies of the result, so that one can be filled while the other is read."""
        self._computed("double_buffer")
        self.double_buffered = True

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Make the distance of neighbours along the data axis `axis` a multiple of `factor` plus `offset`.

        It is counted in elements in memory; rows are padded where needed.

            storage_align(y, 32, 1):  B[64, 32], strides (32, 1)   →   strides (33, 1)
        """
        op = self._computed("storage_align")
        root = next((a for a in op.axis if isinstance(axis, IterVar) and a.var is axis.var), None)
        if root is None:
            names = ", ".join(a.var.name for a in op.axis) or "none"
            raise self._illegal(
                "storage_align",
                f"axis {axis_name(axis)!r} is no data axis of stage {self.name!r}",
                hint=f"its data axes are {names}",
            )
        width, rest = ops.as_int(factor), ops.as_int(offset)
        if width is None or rest is None or width < 1 or not 0 <= rest < width:
            raise ScheduleArgumentError(
                f"storage_align: stage {self.name!r} needs a factor of at least 1 and an offset from 0 to below it, "
                f"got {factor!r} and {offset!r}" + here()
            )
        if self.is_output:
            raise self._illegal("storage_align", f"stage {self.name!r} is an output: the caller owns its memory")
        self.alignments[root] = (width, rest)

    def rolling_buffer(self) -> None:
        """Keep what neighbouring iterations share in a circular buffer, and compute only what each adds.

            for i:                        →   for i:
                B[i], B[i + 1] = ...              B[(i + 1) % 2] = ...  (and B[0] at i = 0)
                C[i] = B[i] + B[i + 1]            C[i] = B[i % 2] + B[(i + 1) % 2]

        The stage must be attached to a loop whose iterations overlap in what they read of it: `lower` says so
        otherwise.
        """
        self._computed("rolling_buffer")
        if self.is_output:
            raise self._illegal("rolling_buffer", f"stage {self.name!r} is an output: the caller owns its memory")
        self.rolled = True
        self.said_at["rolling_buffer"] = caller_span()

    # ------------------------------------------------- the schedule's primitives, on this stage

    def cache_read(self, tensor: Tensor, scope: str, readers: Sequence[Any] | None = None) -> Tensor:
        """`Schedule.cache_read` of `tensor` for `readers`, or for this stage."""
        return self.schedule.cache_read(tensor, scope, [self.op] if readers is None else readers)

    def cache_write(self, tensor: Any = None, scope: str = "local") -> Any:
        """`Schedule.cache_write` of `tensor`, or of this stage's output (a list, where it has several)."""
        if isinstance(tensor, str):
            tensor, scope = None, tensor
        return self.schedule.cache_write(self._result() if tensor is None else tensor, scope)

    def rfactor(self, axis: IterVar, factor_axis: int = 0) -> Any:
        """`Schedule.rfactor` of this stage's output (a list, where it has several)."""
        return self.schedule.rfactor(self._result(), axis, factor_axis)

    def _result(self) -> Any:
        outputs = [self.op.output(i) for i in range(self.op.num_outputs)]
        return outputs if len(outputs) > 1 else outputs[0]

    # ----------------------------------------------------------------------------- checks

    def _computed(self, primitive: str) -> ComputeOp:
        """The operation, when it has loops to schedule."""
        if not isinstance(self.op, ComputeOp):
            if isinstance(self.op, PlaceholderOp):
                what = "an input"
            elif isinstance(self.op, ScanOp):
                what = f"a scan: its loops are those of its updates, {', '.join(t.name for t in self.op.update)}"
            else:
                what = "not made of loops that a schedule knows: it is written by hand, or a group of stages"
            raise self._illegal(primitive, f"stage {self.name!r} is {what}")
        return self.op

    def _placeable(self, primitive: str) -> None:
        self._computed(primitive)

    def _loop_of(self, primitive: str, parent: Stage, axis: IterVar) -> IterVar:
        """The leaf `axis` of `parent`, another stage of this schedule."""
        if not isinstance(parent, Stage) or parent.schedule is not self.schedule:
            raise self._illegal(
                primitive,
                f"stage {self.name!r} can only be attached to a stage of its own schedule",
                hint="give the stage, such as s[C], and one of its axes",
            )
        return parent.leaves[parent._leaf(primitive, axis)]


class StageGroup(Stage):
    """Stages that are placed as one (`Schedule.create_group`). It has no loops of its own."""

    def _placeable(self, primitive: str) -> None:
        pass
