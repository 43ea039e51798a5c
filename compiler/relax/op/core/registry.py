"""Operators: one declaration holds everything about an operator.

    @operator("relax.nn.softmax", infer=rules.like("data", floats=True), te=topi.nn.softmax, pattern=..., ...)
    def softmax(data: TensorArg, axis: int = -1) -> Expr:
        \"\"\"Scale exp(data) to a sum of 1 along `axis`.\"\"\"

The signature says what the operator takes (see `compiler.relax.op.core.params`). The declaration becomes the function
that builds the call. Builder, printer, parser, legalisation, fusion, layout conversion, cost and documentation read the
table. Every part is there, or `refused("why")`.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec

from compiler.arith.analyzer import Analyzer
from compiler.errors import IRError
from compiler.ir.base import Op, RelaxExpr, Span
from compiler.relax.nodes import Call, Expr, StructInfo
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.relax.op.core.layout import LayoutRule
from compiler.relax.op.core.params import Param, bind, params_of
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import Count, Work, inputs_and_outputs
from compiler.suggest import closest
from compiler.te.where import at, caller_span

P = ParamSpec("P")


class OpPatternKind(enum.IntEnum):
    """How fusion may treat an operator; the numbers are TVM's."""

    ELEMWISE = 0  # element i of the result reads element i of each argument
    BROADCAST = 1  # the same, with arguments repeated along dimensions
    INJECTIVE = 2  # each element of the result reads one element of an argument
    COMM_REDUCE = 3  # a reduction
    OUT_ELEMWISE_FUSABLE = 4  # elementwise operators may be fused into its result: products, convolutions
    TUPLE = 7
    OPAQUE = 8  # never fused


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """A part that an operator does not have, and why."""

    reason: str


def refused(reason: str) -> RefusedPart:
    """State that an operator lacks a part. `reason` completes "because …"."""
    return RefusedPart(reason)


InferRule = Callable[[Use], StructInfo]
"""What is known of the result."""
TeForm = Callable[..., Any]
"""The computation: `te(*arguments, **attributes)`, arguments as te tensors, lists of them, or scalars."""
Legalize = Callable[[Any, Call], RelaxExpr]
"""What an operator without a te form becomes: `legalize(builder, call)`."""
HostForm = Callable[..., Any]
"""The value on numpy arrays, for operators that no kernel computes: `host(*arguments, **attributes)`."""
Gradient = Callable[[Backward], Gradients]
"""The gradient of each argument."""
Canonical = Callable[[dict[str, Any]], Mapping[str, Any]]
"""The attributes that a call holds, from those that were given."""
Normalize = Callable[[Use], Call]
"""The call in the one way that its operator is written: a -1 in a shape resolved, for instance. Often itself."""
Proven = Callable[[Use], bool]
"""Whether the shapes of a call are known to fit, so that a kernel of it reads only what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Everything about one operator.

    `te` or `legalize` says what it computes; `host`, how the interpreter runs it if it has neither. `flops` counts
    arithmetic operations, `bytes` what is read and written. `precision` says when it uses lower precision: always, as
    its arguments do ("follow"), or never. If `proven` does not hold, no kernel is made of a call. `host` then runs it,
    and checks what a kernel would take for granted.
    """

    name: str
    doc: str
    params: tuple[Param, ...]
    infer: InferRule
    te: TeForm | RefusedPart
    legalize: Legalize | RefusedPart
    host: HostForm | RefusedPart
    pattern: OpPatternKind
    layout: LayoutRule | RefusedPart
    flops: Count | RefusedPart
    bytes: Count | RefusedPart
    pure: bool
    gradient: Gradient | RefusedPart
    precision: Literal["always", "follow", "never"]
    canonical: Canonical | None
    normalize: Normalize | None
    proven: Proven | None
    op: Op

    @property
    def short_name(self) -> str:
        """The name that kernels made of it have: "relax.nn.softmax" → "softmax"."""
        return self.name.rpartition(".")[2]

    @property
    def arguments(self) -> tuple[Param, ...]:
        """The arguments of the call."""
        return tuple(param for param in self.params if param.is_argument)

    @property
    def attributes(self) -> tuple[Param, ...]:
        return tuple(param for param in self.params if param.is_attr)

    def call(self, args: Sequence[Any], kwargs: Mapping[str, Any], span: Span | None = None) -> Call:
        """The call that Python arguments stand for. Raises ArgumentError where they do not fit."""
        bound = bind(self.name, self.params, args, kwargs)
        attrs = bound.attrs if self.canonical is None else self.canonical(bound.attrs)
        return Call(self.op, tuple(bound.args), attrs, bound.sinfo_args, span)

    def normalized(self, call: Call, analyzer: Analyzer | None = None, context: Any = None) -> Call:
        """Return the call in the operator's one canonical form. Its arguments' StructInfo is known."""
        if self.normalize is None:
            return call
        return self.normalize(Use(call, self.name, self.params, analyzer or Analyzer(), context))

    def struct_info(self, call: Call, analyzer: Analyzer | None = None, context: Any = None) -> StructInfo:
        """Return what is known of the call's result.
        Raises IRError, with the call's line, where its arguments do not fit."""
        return self.infer(Use(call, self.name, self.params, analyzer or Analyzer(), context))

    def gradients(self, result: RelaxExpr, call: Call, grad: RelaxExpr, builder: Any) -> Gradients:
        """The gradient of each argument, from that of the result; None for arguments that have none.

        `builder` is a `BlockBuilder` inside of a function; what the rule computes is emitted there. `call` has known
        StructInfo. Raises IRError where the operator has no gradient, and where shapes must be known and are not.
        """
        if isinstance(self.gradient, RefusedPart):
            raise IRError(f"{self.name} has no gradient: {self.gradient.reason}{at(call.span)}")
        found = tuple(self.gradient(Backward(result, call, grad, builder, OPERATORS)))
        assert len(found) == len(call.args), self.name
        return found

    def is_proven(self, call: Call, analyzer: Analyzer | None = None) -> bool:
        """Whether a kernel may compute a call whose arguments' StructInfo is known."""
        return self.proven is None or self.proven(Use(call, self.name, self.params, analyzer or Analyzer(), None))

    def work(self, call: Call) -> Work:
        """How much a call with known StructInfo does."""
        flops = None if isinstance(self.flops, RefusedPart) else self.flops(call)
        return Work(flops, None if isinstance(self.bytes, RefusedPart) else self.bytes(call))


def built_in(*args: Any) -> Any:
    """The host form of operators that interpreter and VM know by name."""
    raise AssertionError("interpreter and VM know this operator by name")


OPERATORS: dict[str, Operator] = {}
"""Every operator by its full name."""


def operator(
    name: str, *, infer: InferRule, te: TeForm | RefusedPart, pattern: OpPatternKind, flops: Count | RefusedPart,
    layout: LayoutRule | RefusedPart, gradient: Gradient | RefusedPart, legalize: Legalize | RefusedPart | None = None,
    host: HostForm | RefusedPart | None = None, bytes: Count | RefusedPart = inputs_and_outputs, pure: bool = True,
    precision: Literal["always", "follow", "never"] = "follow", canonical: Canonical | None = None,
    normalize: Normalize | None = None, proven: Proven | None = None,
) -> Callable[[Callable[P, Expr]], Callable[P, Call]]:  # fmt: skip
    """Declare the operator `name`; the decorated function's signature says what it takes.

    `canonical(attributes)` completes the given attributes: an int that stands for several, a layout that follows from
    another. `normalize(use)` does so where the arguments' StructInfo is needed. `proven(use)` says whether the shapes
    are known to be such that a kernel reads only inside its arguments. Raises IRError for a name declared before, and
    if `te`, `legalize` and `host` are all refused.
    """
    if name in OPERATORS:
        raise IRError(f"the operator {name} is declared twice")
    by_te = not isinstance(te, RefusedPart)
    legal = legalize if legalize is not None else refused("its te form says what it becomes" if by_te else te.reason)  # type: ignore[union-attr]
    on_host = host if host is not None else refused("its kernel computes it")
    if isinstance(te, RefusedPart) and isinstance(legal, RefusedPart) and isinstance(on_host, RefusedPart):
        raise IRError(f"the operator {name} says nowhere what it computes", hint="give te, legalize or host")

    def declare(declared: Callable[P, Expr]) -> Callable[P, Call]:
        signature = inspect.signature(declared, eval_str=True)
        params = params_of(signature)
        entry = Operator(
            name=name, doc=inspect.getdoc(declared) or "", params=params, infer=infer, te=te, legalize=legal,
            host=on_host, pattern=pattern, layout=layout, flops=flops, bytes=bytes, pure=pure, gradient=gradient,
            precision=precision, canonical=canonical, normalize=normalize, proven=proven,
            op=Op.register(name, pure=pure),
        )  # fmt: skip
        OPERATORS[name] = entry

        @functools.wraps(declared)
        def build(*args: P.args, **kwargs: P.kwargs) -> Call:
            return entry.call(args, kwargs, caller_span())

        return build

    return declare


def operator_of(op: Op | str) -> Operator:
    """The declaration of an operator. Raises IRError where there is none."""
    name = op if isinstance(op, str) else op.name
    found = OPERATORS.get(name)
    if found is None:
        raise IRError(f"there is no graph operator {name!r}", hint=closest(name, OPERATORS))
    return found
