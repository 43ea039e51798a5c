"""The loops of a stage: their order, and the primitives applied to each.

Primitives are only checked and recorded here; `compiler.te.schedule.replay` applies them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compiler.dtype import is_int
from compiler.errors import ScheduleError
from compiler.schedule.analysis.tree import extent_text
from compiler.te.operation import thread_axis
from compiler.te.scan import ScanOp
from compiler.te.schedule.relations import (
    Fuse,
    IterVarAttr,
    Prefetch,
    Relation,
    Reorder,
    Singleton,
    Split,
    Step,
    axis_extents,
    shown_leaf,
)
from compiler.te.tensor import Operation, Tensor
from compiler.te.tensor_intrin import TensorIntrin
from compiler.te.where import caller_span, here
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IntImm, IterType, IterVar, PrimExpr, Range, Var

_ALONG_A_SCAN = ("compute_at", "store_at", "unroll", "pragma")


class ScheduleArgumentError(ScheduleError, ValueError, kind="schedule_argument"):
    """A schedule primitive called with arguments that make no sense together."""


class LoopRecord:
    """The loops around the computation of `op`, and the primitives that change them.

    `relations` says how axes were derived from one another, `steps` also holds the reorderings.
    """

    op: Operation

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all that was recorded about the loops: the leaves are the operation's own axes."""
        self.leaves: list[IterVar] = [*self.op.axis, *self.op.reduce_axis]
        within = self.op.spatial_axis_ if isinstance(self.op, ScanOp) else ()
        self.all_iter_vars: list[IterVar] = [*self.leaves, *within]
        self.relations: list[Relation] = []
        self.steps: list[Step] = []
        self.iter_var_attrs: dict[IterVar, IterVarAttr] = {}
        self.prefetches: list[Prefetch] = []

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def leaf_iter_vars(self) -> list[IterVar]:
        """The loops, outermost first, each with its kind (`for_type`, `thread_tag`)."""
        return [shown_leaf(leaf, self.iter_var_attrs.get(leaf)) for leaf in self.leaves]

    @property
    def leaf_var_map(self) -> dict[Var, IterVar]:
        """The leaf of each leaf's variable."""
        return {leaf.var: leaf for leaf in self.leaf_iter_vars}

    def loop_made_of(self, axis: IterVar) -> IterVar:
        """Return the loop that `axis` became in later steps: the inner part of a split, or the fused loop."""
        for relation in self.relations:
            if isinstance(relation, Split) and relation.parent is axis:
                axis = relation.inner
            elif isinstance(relation, Fuse) and axis in (relation.outer, relation.inner):
                axis = relation.fused
        return axis

    @property
    def scheduled(self) -> bool:
        """Whether anything was recorded about the loops."""
        return bool(self.steps or self.iter_var_attrs or self.prefetches)

    # ------------------------------------------------------------------------------- loops

    def split(
        self, parent: IterVar, factor: Any = None, nparts: Any = None, disable_predication: bool = False
    ) -> tuple[IterVar, IterVar]:
        """Split `parent` in two; returns (outer, inner).

        The inner loop has `factor` iterations, or the outer one `nparts`. Where that does not divide the
        extent, the surplus iterations are skipped. The size may be an expression, such as a variable that the
        function is called with; `disable_predication` promises that it divides one that is not
        known. Raises ScheduleArgumentError (a ValueError) unless exactly one is given and positive, ScheduleError when
        `parent` is not a leaf.

            for i in 10:      →   for i.outer in 3:
                ...                   for i.inner in 4:  (where i.outer*4 + i.inner < 10)
        """
        if (factor is None) == (nparts is None):
            raise ScheduleArgumentError(
                f"split: axis {axis_name(parent)!r} of stage {self.name!r} needs exactly one of factor and nparts"
                + here()
            )
        size = self._size("split", "factor" if nparts is None else "nparts", factor, nparts)
        position = self._leaf("split", parent)
        parent = self.leaves[position]
        outer = IterVar(None, Var(f"{parent.var.name}.outer", parent.dtype), parent.iter_type)
        inner = IterVar(None, Var(f"{parent.var.name}.inner", parent.dtype), parent.iter_type)
        by_factor, by_parts = (size, None) if nparts is None else (None, size)
        relation = Split(parent, outer, inner, by_factor, by_parts, caller_span(), disable_predication)
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
            self._derive(Singleton(single, caller_span()), slice(0, 0), [single])
            return single
        fused = axes[0]
        self._leaf("fuse", fused)
        for inner in axes[1:]:
            fused = self._fuse_two(fused, inner)
        return fused

    def _fuse_two(self, outer: IterVar, inner: IterVar) -> IterVar:
        first, second = self._leaf("fuse", outer), self._leaf("fuse", inner)
        if second != first + 1:
            raise self._illegal(
                "fuse",
                f"axis {axis_name(inner)!r} is not right inside {axis_name(outer)!r} in stage {self.name!r}",
                inner,
                hint=f"its loops are {self._leaves()}; reorder them first",
            )
        outer, inner = self.leaves[first], self.leaves[second]
        kind = max(outer.iter_type, inner.iter_type)
        fused = IterVar(None, Var(f"{outer.var.name}.{inner.var.name}.fused", outer.dtype), kind)
        self._derive(Fuse(outer, inner, fused, caller_span()), slice(first, second + 1), [fused])
        return fused

    def _derive(self, relation: Relation, replaced: slice, axes: list[IterVar]) -> None:
        self.relations.append(relation)
        self.steps.append(relation)
        self.all_iter_vars.extend(axes)
        self.leaves[replaced] = axes

    def reorder(self, *axes: IterVar) -> None:
        """Put the loops `axes` in this order, in the places they hold now.

        Raises ScheduleError when an axis is not a leaf or is given twice.

            for i, j, k: ...      →   for k, i, j: ...
        """
        places = [self._leaf("reorder", axis) for axis in axes]
        for number, place in enumerate(places):
            if place in places[:number]:
                raise self._illegal(
                    "reorder",
                    f"axis {axis_name(axes[number])!r} of stage {self.name!r} is given twice",
                    axes[number],
                    hint=f"its loops are {self._leaves()}",
                )
        moved = tuple(self.leaves[place] for place in places)
        for place, axis in zip(sorted(places), moved):
            self.leaves[place] = axis
        self.steps.append(Reorder(moved, caller_span()))

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split both axes and put the inner loops inside: returns (x outer, y outer, x inner, y inner).

        for x in 64:          →   for x.outer, y.outer in 8, 4:
            for y in 64: ...          for x.inner, y.inner in 8, 16: ...
        """
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    # -------------------------------------------------------------------- what loops become

    def vectorize(self, var: IterVar) -> None:
        """Run the iterations of `var` as vector instructions.
        Raises ScheduleError for one that is reduced over."""
        if self.leaves[self._leaf("vectorize", var)].iter_type is IterType.COMM_REDUCE:
            rule = f"axis {axis_name(var)!r} is reduced over: its iterations depend on one another"
            raise self._illegal("vectorize", rule, var, hint="use rfactor, and vectorize the new data axis")
        self._mark("vectorize", var, iter_type=IterType.VECTORIZED)

    def unroll(self, var: IterVar) -> None:
        """Write the iterations of `var` one after another."""
        self._mark("unroll", var, iter_type=IterType.UNROLLED)

    def parallel(self, var: IterVar) -> None:
        """Share the iterations of `var` among threads."""
        self._mark("parallel", var, iter_type=IterType.PARALLELIZED)

    def bind(self, ivar: IterVar, thread_ivar: IterVar | str) -> None:
        """Run each iteration of `ivar` on the device thread or block `thread_ivar`, a `te.thread_axis`."""
        thread = thread_axis(thread_ivar) if isinstance(thread_ivar, str) else thread_ivar
        if thread.iter_type is not IterType.THREAD_INDEX:
            raise self._illegal("bind", f"{axis_name(thread)!r} is no thread axis", ivar, hint="use te.thread_axis")
        self._mark("bind", ivar, bind_thread=thread)

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Note `pragma_type` (with a value) on the loop of `var`, for passes and the code generator.

        "vectorize" and "unroll" do what the methods of these names do.
        """
        if pragma_type in ("vectorize", "unroll"):
            (self.vectorize if pragma_type == "vectorize" else self.unroll)(var)
            return
        value = None if pragma_value is None else ops.as_expr(pragma_value)
        leaf = self.leaves[self._leaf("pragma", var)]
        self._mark("pragma", leaf, pragmas=(*self._attr(leaf).pragmas, (pragma_type, value)))

    def prefetch(self, tensor: Tensor, var: IterVar, offset: Any) -> None:
        """Ask memory in each iteration of the loop of `var` for what is needed `offset` iterations later.

        It is what readers of `tensor` there need. A tensor that nothing there reads, of the shape of what is computed
        there, is asked for at the same places, to be written.

            for i in 64:          →   for i in 64:
                B[i, ...] = A[i]          prefetch A[i + 2, ...]
                                          B[i, ...] = A[i]
        """
        leaf = self.leaves[self._leaf("prefetch", var)]
        ahead = ops.as_int(offset)
        if ahead is None or ahead < 0:
            raise ScheduleArgumentError(
                f"prefetch: stage {self.name!r} needs a number of iterations, at least 0, got {offset!r}"
                + here()
            )
        self.prefetches.append(Prefetch(tensor, leaf, ahead, caller_span()))

    def tensorize(self, var: IterVar, tensor_intrin: TensorIntrin) -> None:
        """Compute the loop of `var` and all inside it with `tensor_intrin`, made by `te.decl_tensor_intrin`.
        The loop must do what the intrinsic computes. Raises ScheduleArgumentError (a ValueError) for anything else
        than such an intrinsic."""
        if not isinstance(tensor_intrin, TensorIntrin):
            raise ScheduleArgumentError(
                f"tensorize: stage {self.name!r} needs an intrinsic made by te.decl_tensor_intrin, got "
                f"{type(tensor_intrin).__name__} {repr(tensor_intrin)[:60]}{here()}"
            )
        self._mark("tensorize", var, iter_type=IterType.TENSORIZED, tensor_intrin=tensor_intrin)

    def tensorized(self, leaf: IterVar) -> bool:
        """Whether an intrinsic does all that is inside the loop of `leaf`."""
        return self._attr(leaf).tensor_intrin is not None

    def _attr(self, leaf: IterVar) -> IterVarAttr:
        return self.iter_var_attrs.get(leaf, IterVarAttr())

    def _mark(self, primitive: str, axis: IterVar, **changes: Any) -> None:
        leaf = self.leaves[self._leaf(primitive, axis)]
        self.iter_var_attrs[leaf] = replace(self._attr(leaf), **changes, span=caller_span())

    # ----------------------------------------------------------------------------- checks

    def _leaf(self, primitive: str, axis: IterVar) -> int:
        """The position of `axis` among the leaves."""
        if isinstance(self.op, ScanOp) and primitive not in _ALONG_A_SCAN:
            raise self._illegal(
                primitive,
                f"axis {axis_name(axis)!r} is one of a scan, whose rows are computed one after another",
                hint=f"schedule the axes of its updates: {', '.join(t.name for t in self.op.update)}",
            )
        why = "is no axis"
        if isinstance(axis, IterVar):
            for position, leaf in enumerate(self.leaves):
                if leaf.var is axis.var:
                    return position
            gone = any(known.var is axis.var for known in self.all_iter_vars)
            why = "is no longer a loop: it was split or fused" if gone else "belongs to another stage"
        raise self._illegal(
            primitive,
            f"axis {axis_name(axis)!r} {why} (stage {self.name!r})",
            hint=f"the loops of stage {self.name!r} are {self._leaves()}",
        )

    def _leaves(self) -> str:
        return ", ".join(leaf.var.name for leaf in self.leaves) or "none"

    def _size(self, primitive: str, what: str, factor: Any, nparts: Any) -> PrimExpr:
        given = factor if nparts is None else nparts
        value = ops.as_int(given)
        if value is not None and value >= 1:
            return IntImm("int32", value)
        if value is None and isinstance(given, PrimExpr) and is_int(given.dtype):
            return given
        raise ScheduleArgumentError(
            f"{primitive}: {what} of stage {self.name!r} must be a positive integer, got {given!r}" + here()
        )

    def _illegal(
        self, primitive: str, rule: str, axis: IterVar | None = None, hint: str | None = None
    ) -> ScheduleError:
        """The error of a broken rule: at the user's line, with the loops, `axis` pointed at."""
        indented = "\n".join(f"    {line}" for line in self.nest_text(axis))
        return ScheduleError(
            f"{primitive}: {rule}{here()}\n{indented}", hint=hint, detail={"primitive": primitive}
        )

    def nest_text(self, mark: IterVar | None = None) -> list[str]:
        """The loops in a line each, around the block; `mark` is the one to point at."""
        extents = axis_extents((*self.op.axis, *self.op.reduce_axis), self.relations)
        lines: list[str] = []
        for depth, leaf in enumerate(self.leaf_iter_vars):
            kind = "" if leaf.for_type is ForKind.SERIAL else f" {leaf.thread_tag or leaf.for_type.value}"
            line = f"{'  ' * depth}for {leaf.var.name} in {extent_text(extents[leaf])}{kind}:"
            marked = mark is not None and leaf.var is mark.var
            lines.append(f"{line:<34}  <--" if marked else line)
        return [*lines, f"{'  ' * len(lines)}block {self.name}"]


def axis_name(axis: Any) -> str:
    return axis.var.name if isinstance(axis, IterVar) else repr(axis)
