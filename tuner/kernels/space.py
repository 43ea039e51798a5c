"""The parameters of a kernel of your own: their values, and which combinations make sense."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.python_text import parsed_expression
from compiler.schedule.core.trace import Trace
from tuner.errors import TuningError
from tuner.space.sketch import Decision, Sketch, Values

Value = int | float | str | bool
Config = Mapping[str, Value]
FORMAT = "tunefarm.config"
VERSION = 1


@dataclass(frozen=True)
class KernelSpace:
    """`parameters` maps names to values, in an order where neighbours are alike.
    `constraints` are expressions over the names, such as "TILE * UNROLL <= 64", or functions of a config; a config
    has to meet all of them."""

    parameters: Mapping[str, Sequence[Value]]
    constraints: Sequence[str | Callable[[Config], bool]] = ()
    _checks: tuple[Callable[[Config], bool], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, values in self.parameters.items():
            if not name.isidentifier():
                raise TuningError(f"{name!r} is no name for a parameter", hint="letters, digits and _, as in Python")
            if isinstance(values, str) or not values:
                raise TuningError(f"parameter {name} needs a list of values", hint=f"{name} = [1, 2, 4]")
            if len(set(values)) != len(values):
                raise TuningError(f"parameter {name} has a value twice: {list(values)}")
        if not self.parameters:
            raise TuningError("a space needs a parameter")
        checks = tuple(expression(c, self.parameters) if isinstance(c, str) else c for c in self.constraints)
        object.__setattr__(self, "_checks", checks)

    def allows(self, config: Config) -> bool:
        """Whether `config` meets the constraints. Raises TuningError when one of them fails to say."""
        for given, check in zip(self.constraints, self._checks):
            try:
                if not check(config):
                    return False
            except Exception as error:
                raise TuningError(f"constraint {given!r} failed for {dict(config)}: {error}") from None
        return True

    def check(self, config: Config) -> None:
        """Raise TuningError unless `config` gives each parameter one of its values and meets the constraints."""
        if set(config) != set(self.parameters):
            raise TuningError(f"a config has {', '.join(self.parameters)}; got {', '.join(config) or 'nothing'}")
        for name, value in config.items():
            if value not in self.parameters[name]:
                raise TuningError(f"{name} = {value!r} is none of {list(self.parameters[name])}")
        if not self.allows(config):
            raise TuningError(f"the config {dict(config)} does not meet the constraints")

    def sketch(self, name: str) -> ConfigSketch:
        """The space as the search takes it. Raises TuningError when no config is allowed."""
        decisions = tuple(Decision(key, tuple(range(len(values)))) for key, values in self.parameters.items())
        return ConfigSketch(name, Trace(), decisions, self._allowed, _level, self)

    def _allowed(self, indices: Values) -> bool:
        return self.allows({key: self.parameters[key][at] for key, at in indices.items()})


@dataclass(frozen=True)
class ConfigSketch(Sketch):
    """A space of configs: each decision is a place in a parameter's list, and the record is the config."""

    space: KernelSpace

    def trace_json(self, indices: Sequence[int]) -> str:
        """The config as text."""
        return config_json(self._config(indices))

    def shown(self, indices: Sequence[int]) -> str:
        """The name and the values of the parameters that have more than one."""
        config, values = self._config(indices), self.space.parameters
        return " ".join([self.name, *(f"{key}={config[key]}" for key in sorted(config) if len(values[key]) > 1)])

    def _config(self, indices: Sequence[int]) -> dict[str, Value]:
        values = self.space.parameters.items()
        return {name: given[at] for (name, given), at in zip(values, indices, strict=True)}


def _level(values: Values) -> float:
    return 0.0


def config_json(config: Config) -> str:
    """A config as it is recorded: the same text for equal configs."""
    record = {"format": FORMAT, "version": VERSION, "config": dict(config)}
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def config_of(text: str) -> dict[str, Value]:
    """The inverse of `config_json`. Raises TuningError for other text."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise TuningError(f"the record is not JSON: {error}") from None
    match record:
        case {"format": "tunefarm.config", "version": 1, "config": dict(config)}:
            return config
    raise TuningError("the record is no config of a kernel")


# -------------------------------------------------------------------------------- expressions

_BINARY: dict[type[ast.AST], Callable[..., object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: dict[type[ast.AST], Callable[..., object]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., object]] = {"min": min, "max": max, "abs": abs}


def expression(text: str, names: Mapping[str, object]) -> Callable[[Config], bool]:
    """Return a constraint in text as a function.

    It has arithmetic, comparisons, and, or, not, min, max, abs over `names`. Raises TuningError for anything else;
    nothing of the text is run as Python.
    """
    try:
        tree = parsed_expression(text)
    except (SyntaxError, ValueError) as error:
        raise TuningError(f"constraint {text!r} can't be read: {error}") from None
    _check(tree, text, names)
    return lambda config: bool(_value(tree, config))


def number(text: str) -> object:
    """Return what arithmetic in text gives, such as "2 * 384**3". Raises TuningError."""
    try:
        tree = parsed_expression(text)
        _check(tree, text, {})
        return _value(tree, {})
    except (SyntaxError, ValueError, TypeError, ArithmeticError) as error:
        raise TuningError(f"{text!r} is no number: {error}") from None


def _check(node: ast.AST, text: str, names: Mapping[str, object]) -> None:
    match node:
        case ast.Constant(value=int() | float() | str()):
            return
        case ast.Name(id=name) if name in names:
            return
        case ast.Name(id=name):
            raise TuningError(f"constraint {text!r} names {name}, which is no parameter", hint=f"{', '.join(names)}")
        case ast.BinOp(op=op) if type(op) in _BINARY:
            children: list[ast.AST] = [node.left, node.right]
        case ast.Compare(ops=ops) if all(type(op) in _COMPARE for op in ops):
            children = [node.left, *node.comparators]
        case ast.BoolOp():
            children = list(node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            children = [node.operand]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            children = list(node.args)
        case _:
            raise TuningError(
                f"constraint {text!r} has {type(node).__name__}, which is not taken",
                hint="arithmetic, comparisons, and, or, not, min, max and abs are",
            )
    for child in children:
        _check(child, text, names)


def _value(node: ast.AST, config: Config) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return config[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, config), _value(right, config))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            values = [_value(item, config) for item in (left, *rest)]
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, values, values[1:]))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, config) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, config) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, config)
        case ast.UnaryOp(operand=operand):
            return operator.neg(_value(operand, config))  # type: ignore[arg-type]
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_value(arg, config) for arg in args))
    raise AssertionError(ast.dump(node))
