"""Recurrences: tensors whose rows are computed from rows before them.

A state is one tensor under four names:

* its placeholder, which the update reads
* the first rows, which `init` computes
* the other rows, which `update` computes one after another
* the scan's output, which everything else reads
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.ir.base import Span
from compiler.ir.visit import walk
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, between, shape_text, topological
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.nodes import IterType, IterVar, ProducerLoad, Range, Var


@dataclass(frozen=True, eq=False, repr=False)
class ScanOp(Operation):
    """Row t of each state, computed from its earlier rows for each t of `scan_axis`.

    `init` are the first rows. `spatial_axis_` are the axes of the other dimensions, of all states in turn. They are the
    axes of the updates, which have loops, so a schedule splits these.
    """

    scan_axis: IterVar = field(default_factory=lambda: IterVar(None, Var("scan.idx"), IterType.ORDERED))
    init: tuple[Tensor, ...] = ()
    update: tuple[Tensor, ...] = ()
    state_placeholder: tuple[Tensor, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    spatial_axis_: tuple[IterVar, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        outputs = tuple(Tensor(self, i, s.shape, s.dtype) for i, s in enumerate(self.state_placeholder))
        object.__setattr__(self, "_outputs", outputs)
        axes = (_axis(f"{self.name}.v{v}.i{d}", size) for v, s in enumerate(self.state_placeholder)
                for d, size in enumerate(s.shape) if d)  # fmt: skip
        object.__setattr__(self, "spatial_axis_", tuple(axes))

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return (self.scan_axis,)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return (*self.init, *self.update)

    def reading(self, mapping: Mapping[Tensor, Tensor]) -> ScanOp:
        """The same recurrence with other tensors in place of those it reads."""
        init, update, inputs = (
            tuple(mapping.get(t, t) for t in group) for group in (self.init, self.update, self.inputs)
        )
        return ScanOp(
            self.name, self.tag, self.attrs, self.span, self.scan_axis, init, update, self.state_placeholder, inputs
        )  # fmt: skip

    def body(self) -> list[Operation]:
        """Return what is computed for each t: the updates, and everything they need of the states.
        Producers come before consumers."""
        states = [t.op for t in self.state_placeholder]
        found = between([t.op for t in self.update], states, include_inputs=False)
        return found + [op for op in dict.fromkeys(t.op for t in self.update) if op not in found]

    def aliases(self) -> dict[Tensor, Tensor]:
        """Map each other name of a state to the output that it stands for."""
        groups = (self.state_placeholder, self.init, self.update)
        return {tensor: output for group in groups for tensor, output in zip(group, self._outputs)}


def _axis(name: str, size: Any) -> IterVar:
    return IterVar(Range.from_extent(size, size.dtype), Var(name, size.dtype), IterType.OPAQUE)


def scan(
    init: Tensor | Sequence[Tensor], update: Tensor | Sequence[Tensor], state_placeholder: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] | None = None, name: str = "scan", tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Return the tensors whose first rows are `init`; `update` computes the others from rows before them.

    Dimension 0 is the one scanned. `state_placeholder` stands for the result in `update`, which may read row t - 1 and
    earlier ones of it; `inputs` are tensors that the update reads besides, given for the record. Each may be a list, of
    several states that depend on one another: then the result is a list.

        state = te.placeholder((m, n))
        first = te.compute((1, n), lambda _, i: X[0, i])
        step = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
        sums = te.scan(first, step, state, inputs=[X])

    Raises IRError, with the user's line, when lengths, ranks, shapes or dtypes do not agree, or an init or an update is
    not made by te.compute.
    """
    span = caller_span()
    what = f"te.scan {name!r}"
    given = (init, update, state_placeholder, [] if inputs is None else inputs)
    inits, updates, states, others = (_listed(group, what, span) for group in given)
    if not len(inits) == len(updates) == len(states) or not states:
        raise IRError(f"{what} has {len(inits)} inits, {len(updates)} updates, {len(states)} states" + at(span))
    for first, step, state in zip(inits, updates, states):
        _check_state(first, step, state, what, span)
    rows, done = states[0].shape[0], inits[0].shape[0]
    for first, state in zip(inits[1:], states[1:]):
        if not _same(state.shape[0], rows) or not _same(first.shape[0], done):
            raise IRError(f"{what}: its states, or their inits, do not have the same number of rows" + at(span))
    if len(set(inits)) < len(inits) or len(set(updates)) < len(updates) or len(set(states)) < len(states):
        raise IRError(f"{what}: each state needs an init, an update and a placeholder of its own" + at(span))
    axis = IterVar(Range(done, ops.sub(rows, done)), Var(f"{name}.idx", rows.dtype), IterType.ORDERED)
    op = ScanOp(name, tag, dict(attrs or {}), span, axis, inits, updates, states, others)
    _check_body(op, what, span)
    results = [op.output(i) for i in range(op.num_outputs)]
    return results if len(results) > 1 else results[0]


def _listed(group: Any, what: str, span: Span | None) -> tuple[Tensor, ...]:
    items = tuple(group) if isinstance(group, tuple | list) else (group,)
    for item in items:
        if not isinstance(item, Tensor):
            raise IRError(f"{what} takes tensors, got {type(item).__name__}" + at(span))
    return items


def _same(a: Any, b: Any) -> bool:
    return Analyzer().can_prove_equal(a, b)


def _check_state(init: Tensor, update: Tensor, state: Tensor, what: str, span: Span | None) -> None:
    if not isinstance(state.op, PlaceholderOp):
        raise IRError(f"{what}: its state {state.name!r} is no te.placeholder" + at(span))
    for role, tensor in (("init", init), ("update", update)):
        if not isinstance(tensor.op, ComputeOp):
            hint = f"copy it: te.compute({tensor.name}.shape, lambda *i: {tensor.name}(*i))"
            raise IRError(f"{what}: its {role} {tensor.name!r} is not made by te.compute" + at(span), hint=hint)
        if tensor.dtype != state.dtype:
            raise IRError(f"{what}: its {role} is {tensor.dtype}, its state {state.dtype}" + at(span))
        rows = 0 if role == "update" else 1  # an init has as many rows as it likes
        alike = tensor.ndim == state.ndim > 0 and all(map(_same, tensor.shape[rows:], state.shape[rows:]))
        if not alike:
            shapes = f"{shape_text(tensor.shape)}, its state {shape_text(state.shape)}"
            raise IRError(f"{what}: its {role} has shape {shapes}" + at(span))


def _check_body(op: ScanOp, what: str, span: Span | None) -> None:
    """Check that the init does not depend on the states, and that only computes do."""
    states = {t.op for t in op.state_placeholder}
    for first in op.init:
        if states & set(topological([first])):
            raise IRError(f"{what}: its init {first.name!r} reads the state it is to begin" + at(span))
    for inner in op.body():
        if not isinstance(inner, ComputeOp):
            raise IRError(
                f"{what}: {inner.name!r}, which reads a state, is not made by te.compute" + at(span),
                hint="a recurrence may not hold another, nor an extern",
            )
    for step in op.update:
        _check_earlier(step.op, states, what, span)


def _check_earlier(step: Operation, states: set[Operation], what: str, span: Span | None) -> None:
    """An update reads rows of the states before the one that it computes."""
    assert isinstance(step, ComputeOp)
    row, analyzer = step.axes[0], Analyzer()
    assert row.dom is not None
    analyzer.bind(row.var, row.dom)
    loads = [node for expr in step.body for node in walk(expr) if isinstance(node, ProducerLoad)]
    for load in loads:
        at_row = load.indices[0]
        if load.producer.op in states and analyzer.can_prove(ops.greater_equal(at_row, row.var)):
            name, state = row.var.name, load.producer.name
            raise IRError(
                f"{what}: its update {step.name!r} reads row {at_row!r} of {state!r} to compute row {name}" + at(span),
                hint=f"rows before it are there: {state}[{name} - 1, ...]",
            )
