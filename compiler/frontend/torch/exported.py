"""`from_exported_program`: what `torch.export` made, as a module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from compiler.errors import ArgumentError
from compiler.frontend.torch.dimensions import Dimensions
from compiler.frontend.torch.dtypes import TorchConstants, shared_array
from compiler.frontend.torch.errors import RefusedNode, unsupported
from compiler.frontend.torch.importer import GraphImporter, Own, missing_nodes
from compiler.frontend.torch.writes import Writes, plan_writes
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import PrimStructInfo, PrimValue, Tuple, Var
from compiler.relax.nodes.dims import variables
from compiler.tir.nodes import PrimExpr

ROUNDS = 4
"""How often operators are replaced by simpler ones before the rest is refused."""


def from_exported_program(
    exported_program: Any, *, keep_params_as_input: bool = False, unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False, custom_convert_map: Mapping[str, Own] | None = None,
) -> IRModule:  # fmt: skip
    """Turn a `torch.export.ExportedProgram` into a module with the function "main".

    Inputs that are tensors are its parameters, in order; symbolic sizes are symbolic dimensions, whose ranges are the
    attributes "tir_var_lower_bound" and "tir_var_upper_bound". It returns a tuple of the results;
    `unwrap_unit_return_tuple` returns a single result as it is. Weights, buffers and constants become constants that
    share the model's memory. With `keep_params_as_input` weights and buffers are parameters after the inputs, and
    `detach_params` takes their values out of the module. Buffers and inputs that the model changes come
    after the results; the attribute "mutated" names them, and such buffers are parameters.

    Raises UnsupportedOperatorError, which names every node that cannot be converted.
    """
    if not isinstance(exported_program, torch.export.ExportedProgram):
        raise ArgumentError(
            f"an ExportedProgram is wanted, not {type(exported_program).__name__}",
            hint="torch.export.export(model.eval(), example_inputs) makes one",
        )
    own = custom_convert_map or {}
    program, writes = prepared(exported_program, own)
    work = ProgramImport(program, writes, own, keep_params_as_input)
    return work.module(unwrap_unit_return_tuple, no_bind_return_tuple)


def from_exported_file(path: Path) -> IRModule:
    """The module of a file that `torch.export.save` wrote. Raises ArgumentError for another file.

    Torch reads the file, and a file made to do harm may do so: read those of people you trust.
    """
    try:
        program = torch.export.load(path)
    except Exception as error:  # of whatever class torch's parts raise
        raise ArgumentError(f"torch cannot read {path}: {str(error).splitlines()[0]}") from None
    return from_exported_program(program, unwrap_unit_return_tuple=True)


def prepared(program: Any, own: Mapping[str, Own]) -> tuple[Any, Writes]:
    """Return the program with writes resolved, and with operators that have a converter.
    Operators without one raise an error."""
    writes = plan_writes(program.graph)
    if writes is None:
        program, writes = program.run_decompositions({}), {}
    for _ in range(ROUNDS):
        missing = missing_nodes(program.graph_module, own)
        if not missing:
            return program, writes
        simpler = _decompositions(program.graph_module, missing)
        if not simpler:
            break
        program, writes = program.run_decompositions(simpler), {}
    raise unsupported(missing_nodes(program.graph_module, own), "the exported program")


def _decompositions(module: Any, missing: Mapping[str, Any]) -> dict[Any, Any]:
    """Torch's own ways to say missing operators by others."""
    table = torch.export.default_decompositions()
    found: dict[Any, Any] = {}
    for part in module.modules():
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            if node.op == "call_function" and str(node.target) in missing and node.target in table:
                found[node.target] = table[node.target]
    return found


class ProgramImport:
    """One program on its way."""

    def __init__(
        self, program: Any, writes: Writes, own: Mapping[str, Own], keep: bool, name_inputs: str | None = None
    ) -> None:
        """Return the importer.
        `name_inputs` gives inputs' names, {} standing for their number; None keeps the program's names."""
        self.program = program
        self.writes = writes
        self.keep = keep
        self.builder = BlockBuilder()
        self.dimensions = Dimensions()
        self._name_inputs = name_inputs
        self.importer = GraphImporter(self.builder, self.dimensions, TorchConstants(), own)
        self.inputs: list[Var] = []
        self.weights: list[tuple[Var, Any]] = []
        self.mutated = _mutated(program)

    def module(self, unwrap: bool, no_bind: bool) -> IRModule:
        placeholders = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        fakes = [node.meta.get("val") for node in placeholders.values()]
        self.dimensions.solve([fake.shape for fake in fakes if hasattr(fake, "shape")])
        try:
            for spec in self.program.graph_signature.input_specs:
                self._input(spec, placeholders[spec.arg.name])
        except RefusedNode as why:
            raise unsupported({f"an input ({why})": [spec.arg.name]}, "the exported program") from None
        params = [*self.inputs, *(var for var, _ in self.weights)]
        with self.builder.function("main", params, self._attributes()):
            with self.builder.dataflow():
                self.importer.run(self.program.graph_module, self.writes)
                results = self._results()
                if unwrap and len(results) == 1:
                    output: Any = self.builder.emit_output(results[0])
                elif no_bind:
                    output = Tuple(tuple([self.builder.emit_output(result) for result in results]))
                else:
                    output = self.builder.emit_output(Tuple(tuple(results)))
            self.importer.finish("the exported program")
            self.builder.emit_func_output(output)
        return self.builder.get()

    def _input(self, spec: Any, node: Any) -> None:
        """Give an input its value: a parameter, or a constant."""
        kind, fake = spec.kind.name, node.meta.get("val")
        values = self.importer.values
        if kind == "USER_INPUT":
            if not hasattr(spec.arg, "value"):
                values[node] = self._parameter(node, fake)
            else:
                values[node] = spec.arg.value
            return
        tensor = self._tensor(spec)
        is_state = spec.target in self.mutated.values()
        if is_state or (self.keep and kind in ("PARAMETER", "BUFFER")):
            var = Var(node.name, self.importer.info(fake))
            self.weights.append((var, tensor))
            values[node] = var
        else:
            values[node] = self.importer.constants.constant(tensor)

    def _parameter(self, node: Any, fake: Any) -> Any:
        name = self._name_inputs.format(len(self.inputs)) if self._name_inputs else node.name
        if hasattr(fake, "shape"):
            var = Var(name, self.importer.info(fake))
            self.inputs.append(var)
            return var
        size = self.dimensions.dim(fake)
        self.inputs.append(Var(name, PrimStructInfo(value=size)))
        return size

    def _tensor(self, spec: Any) -> Any:
        program = self.program
        if spec.target in program.state_dict:
            return program.state_dict[spec.target]
        return program.constants[spec.target]

    def _results(self) -> list[RelaxExpr]:
        """The results that users see, and then what the model changed."""
        nodes = {node.name: node for node in self.program.graph.nodes}
        found: list[RelaxExpr] = []
        changed: list[RelaxExpr] = []
        for spec in self.program.graph_signature.output_specs:
            if hasattr(spec.arg, "value"):  # a constant, None as a rule
                if isinstance(spec.arg.value, int | float):
                    found.append(PrimValue(spec.arg.value))  # type: ignore[arg-type]
                continue
            value = self.importer.values[nodes[spec.arg.name]]
            shown = PrimValue(value) if isinstance(value, PrimExpr | int | float) else value  # type: ignore[arg-type]
            assert isinstance(shown, RelaxExpr)
            (changed if spec.kind.name in _CHANGES else found).append(shown)
        return [*found, *changed]

    def _attributes(self) -> dict[str, Any]:
        attrs: dict[str, Any] = {"num_input": len(self.inputs)}
        if self.keep or self.weights:
            attrs["params"] = tuple([shared_array(tensor) for _, tensor in self.weights])
        if self.mutated:
            attrs["mutated"] = tuple(self.mutated)
        lower, upper = self._ranges()
        if lower:
            attrs["tir_var_lower_bound"] = lower
        if upper:
            attrs["tir_var_upper_bound"] = upper
        return attrs

    def _ranges(self) -> tuple[dict[str, int], dict[str, int]]:
        """The bounds of the symbolic dimensions of the inputs."""
        sizes = [size for param in self.inputs for size in getattr(param.struct_info_, "dims", None) or ()]
        used = {var.name for size in sizes for var in variables(size)}
        lower: dict[str, int] = {}
        upper: dict[str, int] = {}
        for symbol, bounds in self.program.range_constraints.items():
            if str(symbol) in used:
                if bounds.lower.is_Integer and int(bounds.lower) > 0:
                    lower[str(symbol)] = int(bounds.lower)
                if bounds.upper.is_Integer and int(bounds.upper) < 2**31 - 1:
                    upper[str(symbol)] = int(bounds.upper)
        return lower, upper


_CHANGES = ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION")


def _mutated(program: Any) -> dict[str, str]:
    """Return what the model changes: names as parameters of the function have them, and torch's names."""
    by_target = {spec.target: spec.arg.name for spec in program.graph_signature.input_specs if spec.target}
    found = {}
    for spec in program.graph_signature.output_specs:
        if spec.kind.name in _CHANGES:
            found[by_target.get(spec.target, spec.target)] = spec.target
    return found
