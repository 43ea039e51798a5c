"""Steps as data, the table of primitives, and the one function that applies a step.

A primitive is a pure function `rewrite(func, *inputs, **attrs) -> StepEffect`. `@primitive` registers it under its
name, together with the shape of its arguments. So a step read from a file is checked before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from compiler.errors import IRError, LostReferenceError, ScheduleError, StepTypeError
from compiler.schedule.analysis import tree
from compiler.schedule.core.rv import RV, BlockRV, ExprRV, LoopRV
from compiler.schedule.core.state import Illegal, LostReference, StepEffect, TraceState, Value
from compiler.tir import nodes as n

if TYPE_CHECKING:
    from compiler.schedule.core.effects import Effects

REMEMBERED: ContextVar[Effects | None] = ContextVar("remembered", default=None)
"""The effects that `effects.remembered` keeps here, if any."""

Input = RV | int | None
Decision = int | tuple[int, ...]
Rewrite = Callable[..., StepEffect]


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a primitive.

    `inputs` are what it is applied to, `attrs` (by name, in the primitive's order) plain data, `outputs` the
    names given to its results.
    """

    prim: str
    inputs: tuple[Input, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    outputs: tuple[RV, ...] = ()
    _text: str = field(default="", init=False, repr=False, compare=False)

    @property
    def text(self) -> str:
        """Return the step as text, with the types of its attributes. Steps of equal text have equal effects."""
        if not self._text:
            object.__setattr__(self, "_text", f"{self.prim}{self.inputs!r}{self.attrs!r}{self.outputs!r}")
        return self._text

    @property
    def kind(self) -> Primitive:
        """The primitive that is applied."""
        return get_primitive(self.prim)


@dataclass(frozen=True, slots=True)
class Primitive:
    """How to call a primitive.
    `inputs` are kinds, each "block", "loop", "int", "int?" or alternatives of these joined by "|"; a last one ending in
    "*" stands for any number. `attrs` gives the types of each attribute, `defaults` the values of those that a step may
    omit. `outputs` is the kind of the result, "block", "loop" or "int", with "*" when it is a list, "" for none. A
    sampling primitive has `draw(rng, func, *inputs, **attrs)`, which makes a decision."""

    name: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, tuple[type, ...]]
    outputs: str
    rewrite: Rewrite
    draw: Callable[..., Decision] | None = None
    listed: bool = False  # in Python the variadic inputs are one list argument
    spell: Callable[[list[str], dict[str, Any]], str] | None = None  # its arguments in Python, where they differ
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def stated(self, attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        """`attrs` in the primitive's order, without those that have their default."""
        return tuple((k, attrs[k]) for k in self.attrs if k not in self.defaults or attrs[k] != self.defaults[k])

    @staticmethod
    def get(name: str) -> Primitive:
        """The primitive called `name`. Raises ScheduleError when there is none."""
        return get_primitive(name)

    @property
    def several(self) -> bool:
        """Whether the result is a list."""
        return self.outputs.endswith("*")

    @property
    def output_type(self) -> type[BlockRV] | type[LoopRV] | type[ExprRV] | None:
        """The type of the names of the results, None where there are none."""
        return _RV_TYPES.get(self.outputs.removesuffix("*"))


_RV_TYPES: dict[str, type[BlockRV] | type[LoopRV] | type[ExprRV]] = {"block": BlockRV, "loop": LoopRV, "int": ExprRV}

FUNC_NAME = "func_name"  # an attribute: the function that a step is about, where its inputs do not say it

_REGISTRY: dict[str, Primitive] = {}


def primitive(
    *inputs: str, attrs: Mapping[str, tuple[type, ...]] | None = None, outputs: str = "",
    draw: Callable[..., Decision] | None = None, listed: bool = False,
    spell: Callable[[list[str], dict[str, Any]], str] | None = None, defaults: Mapping[str, Any] | None = None,
) -> Callable[[Rewrite], Rewrite]:  # fmt: skip
    """Register the decorated rewrite as the primitive of its name (see `Primitive`).
    Raises ScheduleError for a name that is taken."""

    def register(rewrite: Rewrite) -> Rewrite:
        name = rewrite.__name__.removesuffix("_")
        if name in _REGISTRY:
            raise ScheduleError(f"a schedule primitive {name!r} is already registered")
        _REGISTRY[name] = Primitive(name, inputs, attrs or {}, outputs, rewrite, draw, listed, spell, defaults or {})
        return rewrite

    return register


def known_primitives() -> list[str]:
    """The names of all primitives, in order."""
    return sorted(_REGISTRY)


def get_primitive(name: str) -> Primitive:
    """The primitive called `name`. Raises ScheduleError when there is none."""
    found = _REGISTRY.get(name)
    if found is None:
        known = ", ".join(known_primitives())
        raise ScheduleError(f"there is no schedule primitive {name[:60]!r}", hint=f"known are: {known}")
    return found


# ----------------------------------------------------------------------------- checking steps


def check_step(step: Step) -> Primitive:
    """The primitive of `step`, after checking that inputs and attributes are of the right kinds.

    Raises a ScheduleError that names the wrong one.
    """
    prim = get_primitive(step.prim)
    kinds = _input_kinds(prim, len(step.inputs))
    for position, (value, kind) in enumerate(zip(step.inputs, kinds)):
        if not _fits(value, kind):
            shown = str(value) if isinstance(value, RV) else repr(value)
            raise StepTypeError(f"{prim.name}: input {position} must be {_kind_text(kind)}, got {shown[:60]}")
    given = dict(step.attrs)
    needed = prim.attrs.keys() - prim.defaults.keys()
    if not needed <= given.keys() <= prim.attrs.keys() or len(given) != len(step.attrs):
        wanted = ", ".join(prim.attrs) or "none"
        raise ScheduleError(f"{prim.name}: its attributes are {wanted}; got {', '.join(given)[:100] or 'none'}")
    for name, value in given.items():
        types = prim.attrs[name]
        if type(value) not in types:
            wanted = " or ".join(t.__name__ for t in types)
            raise StepTypeError(f"{prim.name}: attribute {name} must be of type {wanted}, got {str(value)[:60]!r}")
    return prim


def _input_kinds(prim: Primitive, count: int) -> tuple[str, ...]:
    kinds = prim.inputs
    if kinds and kinds[-1].endswith("*"):
        fixed = kinds[:-1]
        if count >= len(fixed):
            return fixed + (kinds[-1][:-1],) * (count - len(fixed))
    elif count == len(kinds):
        return kinds
    raise ScheduleError(f"{prim.name}: {count} inputs, it takes {', '.join(kinds) or 'none'}")


def _fits(value: Input, kind: str) -> bool:
    match value:
        case None:
            return kind.endswith("?")
        case bool():
            return False
        case int() | ExprRV():
            return "int" in kind
        case BlockRV():
            return "block" in kind
        case LoopRV():
            return "loop" in kind
    return False


def _kind_text(kind: str) -> str:
    return kind.replace("|", " or ").replace("int?", "an integer or None").replace("int", "an integer")


# ----------------------------------------------------------------------------- applying steps


def apply(
    state: TraceState, step: Step, decision: Decision | None = None, effects: Effects | None = None
) -> TraceState:
    """The state after `step`; `decision` is the outcome of a sampling step.

    Effects in `effects` are not computed again. The function is pure. Raises ScheduleError for an illegal step, or one
    without the outcome that `step.outputs` names. The error names the primitive and the broken rule, and shows the
    loops.
    """
    effect = perform(state, step, decision, effects)
    if len(effect.outputs) != len(step.outputs):
        raise ScheduleError(
            f"{step.prim}: gives {len(effect.outputs)} results here, the step names {len(step.outputs)}",
            hint="the trace belongs to another function, or a decision changed the number of loops",
        )
    return bind_outputs(state, effect, step.outputs)


def perform(
    state: TraceState, step: Step, decision: Decision | None = None, effects: Effects | None = None
) -> StepEffect:
    """Return what `step` does to `state`, before its outputs are named. Raises as `apply` does."""
    prim = check_step(step)
    func: n.PrimFunc | None = None
    values: list[Value | None] = []
    try:
        home, func = scene(state, step)
        values = [resolve(state, i) for i in step.inputs]
        attrs = attributes(step)
        if prim.draw is not None:
            if decision is None:
                raise Illegal("a sampling step needs a decision")
            return replace(prim.rewrite(func, *values, **attrs, decision=decision), home=home)
        effects = REMEMBERED.get() if effects is None else effects
        if effects is None:
            return replace(prim.rewrite(func, *values, **attrs), home=home)
        effect = effects.find(func, step, values)
        if effect is None:
            effect = replace(prim.rewrite(func, *values, **attrs), home=home)
            effects.keep(func, step, values, effect)
        return effect
    except Illegal as broken:
        raise as_error(step.prim, func, _placed(broken, values)) from None
    except IRError as error:
        raise as_error(step.prim, func, _placed(Illegal(error.message), values)) from error
    except RecursionError:
        raise ScheduleError(f"{step.prim}: the loops or their conditions are nested too deeply") from None


def scene(state: TraceState, step: Step) -> tuple[str, n.PrimFunc]:
    """Return the function in which the blocks and loops of `step` stand, and its name. Raises Illegal."""
    homes = {state.home(rv) for rv in step.inputs if isinstance(rv, BlockRV | LoopRV)}
    if len(homes) > 1:
        raise Illegal(f"its blocks and loops are in different functions: {', '.join(sorted(map(str, homes)))}")
    name = dict(step.attrs).get(FUNC_NAME, homes.pop() if homes else state.main)
    prim = get_primitive(step.prim)
    if name is None and not prim.inputs and FUNC_NAME not in prim.attrs:
        name = next(iter(state.functions))  # it is about none of them
    func = state.function(name)
    assert name is not None
    return name, func


def attributes(step: Step) -> dict[str, Any]:
    """The attributes of `step` as its primitive takes them."""
    given = {**get_primitive(step.prim).defaults, **dict(step.attrs)}
    given.pop(FUNC_NAME, None)
    return given


def _placed(broken: Illegal, values: list[Value | None]) -> Illegal:
    """Point `broken` at the step's inputs, unless it points somewhere already."""
    first = next((value for value in values if isinstance(value, n.Var | str)), None)
    return broken if broken.where is not None else type(broken)(broken.rule, first, broken.hint)


def resolve(state: TraceState, value: Input) -> Value | None:
    return state.value(value) if isinstance(value, RV) else value


def bind_outputs(state: TraceState, effect: StepEffect, outputs: tuple[RV, ...]) -> TraceState:
    """The state after `effect`, whose results are called `outputs`."""
    env = dict(state.env)
    if effect.renamed:
        for rv, value in state.env.items():
            if isinstance(rv, BlockRV) and isinstance(value, str) and state.home(rv) == effect.home:
                env[rv] = effect.renamed.get(value, value)
    env.update(zip(outputs, effect.outputs))
    homes = state.homes if effect.home == state.main else {**state.homes, **dict.fromkeys(outputs, effect.home)}
    return TraceState({**state.functions, effect.home: effect.func}, state.main, env, homes)


def as_error(prim: str, func: n.PrimFunc | None, broken: Illegal) -> ScheduleError:
    """Return the error for a broken rule. It shows the loops of `func`, where that is known."""
    error = LostReferenceError if isinstance(broken, LostReference) else ScheduleError
    if func is None:
        return error(f"{prim}: {broken.rule}", hint=broken.hint, detail={"primitive": prim})
    nest = tree.tree_text(func.body, broken.where)
    indented = "\n".join(f"    {line}" for line in nest.splitlines())
    return error(f"{prim}: {broken.rule}\n{indented}", hint=broken.hint, detail={"primitive": prim})
