"""A stage: the record of how one operation is to be computed.

Nothing happens when a primitive is called but a check of its arguments and a note; `compiler.te.replay`
carries the notes out when the schedule is lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from compiler.errors import ScheduleError
from compiler.te.relations import AttachType, Fuse, IterVarAttr, Relation, Reorder, Singleton, Split, Step
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from compiler.tir import ops
from compiler.tir.nodes import IterType, IterVar, PrimExpr, Range, Var

if TYPE_CHECKING:
    from compiler.te.schedule import Schedule


class ScheduleArgumentError(ScheduleError, ValueError):
    """A schedule primitive called with arguments that make no sense together."""

    kind = "schedule_argument"


class Stage:
    """How `op` is computed: its loop nest, and where it stands.

    `op` is the operation as the schedule has rewritten it (caching replaces bodies), `origin_op` the one the
    user made. `leaf_iter_vars` are the loops from the outermost in; `all_iter_vars` also holds the
    axes that were split or fused away, `relations` says how. A derived axis has no domain before lowering.
    """

    def __init__(self, op: Operation, schedule: Schedule) -> None:
        self.op = op
        self.origin_op = op
        self.schedule = schedule
        self.all_iter_vars: list[IterVar] = []
        self.leaf_iter_vars: list[IterVar] = []
        self.relations: list[Relation] = []
        self.steps: list[Step] = []
        self.iter_var_attrs: dict[IterVar, IterVarAttr] = {}
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: Stage | None = None
        self.scope = ""
        self.is_output = False
        self.group: Stage | None = None
        self.store_predicate: PrimExpr | None = None
        self.double_buffered = False
        self.reset()

    def reset(self) -> None:
        """Forget all that was recorded about the loops: the leaves are the operation's own axes."""
        self.all_iter_vars = [*self.op.axis, *self.op.reduce_axis]
        self.leaf_iter_vars = list(self.all_iter_vars)
        self.relations, self.steps, self.iter_var_attrs = [], [], {}

    def __repr__(self) -> str:
        return f"Stage({self.op.name}: {self._leaves()})"

    @property
    def name(self) -> str:
        return self.op.name

    # ------------------------------------------------------------------------------- loops

    def split(self, parent: IterVar, factor: Any = None, nparts: Any = None) -> tuple[IterVar, IterVar]:
        """Split `parent` in two; returns (outer, inner).

        The inner loop has `factor` iterations, or the outer one `nparts`. Where that does not divide the
        extent, the surplus iterations are skipped. Raises ScheduleArgumentError (a ValueError) unless
        exactly one is given and positive, ScheduleError when `parent` is not a leaf.

            for i in 10:      →   for i.outer in 3:
                ...                   for i.inner in 4:  (where i.outer*4 + i.inner < 10)
        """
        if (factor is None) == (nparts is None):
            raise ScheduleArgumentError(
                f"split: axis {_name(parent)!r} of stage {self.name!r} needs exactly one of factor and nparts"
            )
        parts = self._positive("split", "factor" if nparts is None else "nparts", factor, nparts)
        position = self._leaf("split", parent)
        outer = IterVar(None, Var(f"{parent.var.name}.outer", parent.dtype), parent.iter_type)
        inner = IterVar(None, Var(f"{parent.var.name}.inner", parent.dtype), parent.iter_type)
        relation = Split(parent, outer, inner, parts if nparts is None else None, None if nparts is None else parts)
        self._derive(relation, slice(position, position + 1), [outer, inner])
        return outer, inner

    def fuse(self, *axes: IterVar) -> IterVar:
        """Make one loop of adjacent loops, given from the outermost in. Of no axes it makes a loop of one
        iteration, outermost. Raises ScheduleError when an axis is not a leaf or they are not adjacent.

            for i in 4:           →   for i.j.fused in 24:
                for j in 6: ...           ...
        """
        if not axes:
            single = IterVar(Range.from_extent(1), Var("singleton"), IterType.DATA_PAR)
            self._derive(Singleton(single), slice(0, 0), [single])
            return single
        fused = axes[0]
        self._leaf("fuse", fused)
        for inner in axes[1:]:
            fused = self._fuse_two(fused, inner)
        return fused

    def _fuse_two(self, outer: IterVar, inner: IterVar) -> IterVar:
        first, second = self._leaf("fuse", outer), self._leaf("fuse", inner)
        if second != first + 1:
            raise ScheduleError(
                f"fuse: axis {_name(inner)!r} is not right inside {_name(outer)!r} in stage {self.name!r}",
                hint=f"its loops are {self._leaves()}; reorder them first",
            )
        kind = max(outer.iter_type, inner.iter_type)
        fused = IterVar(None, Var(f"{outer.var.name}.{inner.var.name}.fused", outer.dtype), kind)
        self._derive(Fuse(outer, inner, fused), slice(first, second + 1), [fused])
        return fused

    def _derive(self, relation: Relation, replaced: slice, axes: list[IterVar]) -> None:
        self.relations.append(relation)
        self.steps.append(relation)
        self.all_iter_vars.extend(axes)
        self.leaf_iter_vars[replaced] = axes

    def reorder(self, *axes: IterVar) -> None:
        """Put the loops `axes` in this order, in the places they hold now.

        Raises ScheduleError when an axis is not a leaf or is given twice.
        """
        places = [self._leaf("reorder", axis) for axis in axes]
        for number, axis in enumerate(axes):
            if any(axis is other for other in axes[:number]):
                raise ScheduleError(
                    f"reorder: axis {_name(axis)!r} of stage {self.name!r} is given twice",
                    hint=f"its loops are {self._leaves()}",
                )
        for place, axis in zip(sorted(places), axes):
            self.leaf_iter_vars[place] = axis
        self.steps.append(Reorder(tuple(axes)))

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split both axes and put the inner loops inside: returns (x outer, y outer, x inner, y inner)."""
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    # -------------------------------------------------------------------- what loops become

    def vectorize(self, var: IterVar) -> None:
        """Run the iterations of `var` as vector instructions."""
        self._set_kind("vectorize", var, IterType.VECTORIZED)

    def unroll(self, var: IterVar) -> None:
        """Write the iterations of `var` one after another."""
        self._set_kind("unroll", var, IterType.UNROLLED)

    def parallel(self, var: IterVar) -> None:
        """Share the iterations of `var` among threads."""
        self._set_kind("parallel", var, IterType.PARALLELIZED)

    def bind(self, ivar: IterVar, thread_ivar: IterVar | str) -> None:
        """Run each iteration of `ivar` on the device thread or block `thread_ivar`, a `te.thread_axis`."""
        from compiler.te.operation import thread_axis

        thread = thread_axis(thread_ivar) if isinstance(thread_ivar, str) else thread_ivar
        if thread.iter_type is not IterType.THREAD_INDEX:
            raise ScheduleError(f"bind: {_name(thread)!r} is no thread axis", hint="use te.thread_axis")
        self._leaf("bind", ivar)
        self.iter_var_attrs[ivar] = replace(self._attr(ivar), bind_thread=thread)

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Note `pragma_type` (with a value) on the loop of `var`, for passes and the code generator."""
        self._leaf("pragma", var)
        value = None if pragma_value is None else ops.as_expr(pragma_value)
        attr = self._attr(var)
        self.iter_var_attrs[var] = replace(attr, pragmas=(*attr.pragmas, (pragma_type, value)))

    def _attr(self, var: IterVar) -> IterVarAttr:
        return self.iter_var_attrs.get(var, IterVarAttr())

    def _set_kind(self, primitive: str, var: IterVar, kind: IterType) -> None:
        self._leaf(primitive, var)
        self.iter_var_attrs[var] = replace(self._attr(var), iter_type=kind)

    # ------------------------------------------------------------------------------ where

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute, in each iteration of the loop `scope` of `parent`, just what that iteration needs.

        Raises ScheduleError when `scope` is not a leaf of `parent`, or this stage is an input or `parent`.
        """
        self._computed("compute_at")
        if parent is self:
            raise ScheduleError(f"compute_at: stage {self.name!r} cannot be computed at itself")
        parent._leaf("compute_at", scope)
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.SCOPE, parent, scope

    def compute_inline(self) -> None:
        """Put the element's expression wherever it is read. Raises ScheduleError for a reduction, for an
        output and for an input."""
        op = self._computed("compute_inline")
        if op.reduction is not None:
            raise ScheduleError(
                f"compute_inline: stage {self.name!r} is a reduction, which is no single expression",
                hint="use compute_at",
            )
        if self.is_output:
            raise ScheduleError(f"compute_inline: stage {self.name!r} is an output of the schedule")
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.INLINE, None, None

    def compute_root(self) -> None:
        """Compute the whole tensor before its consumers: how every stage begins."""
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.GROUP_ROOT, None, None

    def set_scope(self, scope: str) -> None:
        """Keep the result in memory `scope` ("global", "local", "shared", ...)."""
        self._computed("set_scope")
        self.scope = scope

    def double_buffer(self) -> None:
        """Keep two copies of the result, so that one can be filled while the other is read."""
        self._computed("double_buffer")
        self.double_buffered = True

    def cache_read(self, tensor: Tensor, scope: str, readers: Sequence[Any] | None = None) -> Tensor:
        """`Schedule.cache_read` of `tensor` for `readers`, or for this stage."""
        return self.schedule.cache_read(tensor, scope, [self.op] if readers is None else readers)

    def cache_write(self, tensor: Any = None, scope: str = "local") -> Any:
        """`Schedule.cache_write` of `tensor`, or of this stage's output."""
        if isinstance(tensor, str):
            tensor, scope = None, tensor
        return self.schedule.cache_write(self.op.output(0) if tensor is None else tensor, scope)

    # ----------------------------------------------------------------------------- checks

    def _computed(self, primitive: str) -> ComputeOp:
        if not isinstance(self.op, ComputeOp):
            what = "an input" if isinstance(self.op, PlaceholderOp) else "not computed"
            raise ScheduleError(f"{primitive}: stage {self.name!r} is {what}")
        return self.op

    def _leaf(self, primitive: str, axis: IterVar) -> int:
        """The position of `axis` among the leaves."""
        for position, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return position
        if any(axis is known for known in self.all_iter_vars):
            why = "is no longer a loop: it was split or fused"
        else:
            why = "belongs to another stage"
        raise ScheduleError(
            f"{primitive}: axis {_name(axis)!r} {why} (stage {self.name!r})",
            hint=f"the loops of stage {self.name!r} are {self._leaves()}",
        )

    def _leaves(self) -> str:
        return ", ".join(leaf.var.name for leaf in self.leaf_iter_vars) or "none"

    def _positive(self, primitive: str, what: str, factor: Any, nparts: Any) -> int:
        value = ops.as_int(factor if nparts is None else nparts)
        if value is None or value < 1:
            raise ScheduleArgumentError(
                f"{primitive}: {what} of stage {self.name!r} must be a positive integer, "
                f"got {factor if nparts is None else nparts!r}"
            )
        return value


def _name(axis: Any) -> str:
    return axis.var.name if isinstance(axis, IterVar) else repr(axis)
