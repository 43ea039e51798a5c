"""From a module and a spec to a graph module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from compiler.errors import IRError
from compiler.frontend.nn import spec as specs
from compiler.frontend.nn.effects import Effect, IOEffect
from compiler.frontend.nn.op.debug import printing_to
from compiler.frontend.nn.values import Object, Parameter, Tensor
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes import Var as Symbol

INIT = "_initialize_effect"
"""The function that makes the first state of all effects."""


class Exportable(Protocol):
    """The interface of a module that can be exported."""

    def named_parameters(self, prefix: str = "") -> Iterable[tuple[str, Parameter]]:
        """The parameters by name."""

    def named_effects(self, prefix: str = "") -> Iterable[tuple[str, Effect]]:
        """The effects by name."""


class Exporter:
    """Builds the functions of one module."""

    def __init__(self, module: Exportable, debug: bool) -> None:
        self.builder = BlockBuilder()
        self.module = module
        self.io = IOEffect() if debug else None
        self.parameters = list(module.named_parameters())
        effects = list(module.named_effects())
        self.effects: list[tuple[str, Effect]] = [("", self.io), *effects] if self.io is not None else effects

    def build(self, spec: specs.ModuleSpec) -> IRModule:
        """The module with a function for each method, and one that makes the state if there is any."""
        if self.effects:
            with self.builder.function(INIT, [], pure=False):
                states = [var for name, effect in self.effects for var in effect.emit_init(name, self.builder)]
                self.builder.emit_func_output(self.builder.emit(r.Tuple(tuple(states))))
        for name, method in spec.methods.items():
            self._method(name, method)
        return self.builder.get()

    def _method(self, name: str, method: specs.MethodSpec) -> None:
        symbols: dict[str, Symbol] = {}
        inputs = [_input(arg, given, symbols) for arg, given in zip(method.arg_names, method.arg_specs)]
        effects = [effect.create(path) for path, effect in self.effects] if method.effect_mode != "none" else []
        weights = [r.Var(path, _info(param, symbols)) for path, param in self.parameters]
        effect_vars = [var for variables in effects for var in variables]
        packed_effects = _packed("packed_effects", effect_vars) if method.effect_mode == "packed" else None
        packed_weights = _packed("packed_params", weights) if method.param_mode == "packed" else None
        params = [var for var, _ in inputs]
        params += [packed_effects] if packed_effects is not None else effect_vars
        count = len(params)
        if method.param_mode != "none":
            params += [packed_weights] if packed_weights is not None else weights
        kept = [param.variable for _, param in self.parameters]
        try:
            with self.builder.function(name, params, {"num_input": count}), printing_to(self.io):
                with self.builder.dataflow():
                    self._stand(weights, packed_weights)
                    self._set_states(effects, packed_effects)
                    args = [self._argument(var, given) for var, given in inputs]
                    result = method.method(*args)
                    output = self._output(name, result, bool(effects))
                self.builder.emit_func_output(output)
        finally:
            for (_, param), expr in zip(self.parameters, kept):
                param.stand_for(expr)

    def _stand(self, weights: Sequence[r.Var], packed: r.Var | None) -> None:
        """Let the function's parameters stand for those of the module."""
        for index, ((path, param), var) in enumerate(zip(self.parameters, weights)):
            param.stand_for(var if packed is None else self.builder.emit(r.TupleGetItem(packed, index), path))

    def _set_states(self, effects: Sequence[Sequence[r.Var]], packed: r.Var | None) -> None:
        place = 0
        for (path, effect), variables in zip(self.effects, effects):
            states: list[RelaxExpr] = []
            for var in variables:
                states.append(var if packed is None else self.builder.emit(r.TupleGetItem(packed, place), path))
                place += 1
            effect.set_state(states)

    def _argument(self, var: RelaxExpr, given: specs.Spec) -> Any:
        match given:
            case specs.Int():
                info = r.info_of(var)
                assert isinstance(info, r.ShapeStructInfo)
                assert info.values is not None
                return info.values[0]
            case specs.Tensor():
                return Tensor(_expr=var)
            case specs.Object():
                return (given.object_type or Object)(_expr=var, _name="object")
            case specs.Tuple():
                parts = [self.builder.emit(r.TupleGetItem(var, index)) for index in range(len(given.elements))]
                return tuple([self._argument(part, each) for part, each in zip(parts, given.elements)])

    def _output(self, name: str, result: Any, has_effects: bool) -> r.Var:
        """Return what the function returns: the method's result, beside the states if there are any."""
        made = _expr(name, result)
        if has_effects:
            states = [state for _, effect in self.effects for state in effect.finalize()]
            made = r.Tuple((made, r.Tuple(tuple(states))))
        return self.builder.emit_output(made)


def _packed(name: str, variables: Sequence[r.Var]) -> r.Var:
    return r.Var(name, r.TupleStructInfo(tuple([var.struct_info for var in variables])))


def _info(param: Parameter, symbols: dict[str, Symbol]) -> r.TensorStructInfo:
    """Return what is known of a parameter; dimensions of one name are one in a function."""
    sizes = [symbols.setdefault(size.name, size) if isinstance(size, Symbol) else size for size in param.shape]
    return r.TensorStructInfo(sizes, param.dtype)  # type: ignore[arg-type]


def _input(name: str, given: specs.Spec, symbols: dict[str, Symbol]) -> tuple[r.Var, specs.Spec]:
    return r.Var(name, _input_info(name, given, symbols)), given


def _input_info(name: str, given: specs.Spec, symbols: dict[str, Symbol]) -> Any:
    match given:
        case specs.Int():
            return r.ShapeStructInfo((_symbol(name, symbols),))
        case specs.Object():
            return r.ObjectStructInfo()
        case specs.Tensor():
            sizes = [_symbol(size, symbols) if isinstance(size, str) else size for size in given.shape]
            return r.TensorStructInfo(sizes, given.dtype)  # type: ignore[arg-type]
        case specs.Tuple():
            return r.TupleStructInfo(tuple([_input_info(name, each, symbols) for each in given.elements]))


def _symbol(name: str, symbols: dict[str, Symbol]) -> Symbol:
    if name not in symbols:
        symbols[name] = Symbol(name, "int64")
    return symbols[name]


def _expr(name: str, value: Any) -> RelaxExpr:
    match value:
        case Tensor() | Object():
            return value._expr
        case RelaxExpr():
            return value
        case list() | tuple():
            return r.Tuple(tuple([_expr(name, item) for item in value]))
        case int() | PrimExpr():
            return r.PrimValue(value)  # type: ignore[arg-type]
    raise IRError(f"{name} returns {value!r} ({type(value).__name__}), which is no tensor")
