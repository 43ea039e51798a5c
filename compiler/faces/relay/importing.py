"""Models of other programs, as older programs import them: a module and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.frontend.params import detach_params
from compiler.ir.module import IRModule
from compiler.relax.nodes import Function, Var
from compiler.runtime.core.ndarray import NDArray

Imported = tuple[IRModule, dict[str, NDArray]]


def from_onnx(
    model: Any, shape: Mapping[str, Sequence[Any]] | None = None, dtype: str | Mapping[str, str] | None = None,
    opset: int | None = None, freeze_params: bool = True, convert_config: Any = None,
) -> Imported:  # fmt: skip
    """Import an ONNX model as a relax module for `relay.build`, and its weights by name.

    `model`: a ModelProto, its bytes, or the path of a file. `shape`, `dtype`: those of inputs. With `freeze_params`
    weights are constants of the module, and the second result is empty. `convert_config` is ignored; it is accepted for
    compatibility with TVM. Raises what `relax.frontend.onnx.from_onnx` raises.
    """
    from compiler.frontend.onnx import from_onnx as convert  # loads onnx

    module = convert(model, shape_dict=shape, dtype_dict=dtype, opset=opset, keep_params_in_input=not freeze_params)
    return _apart(module)


def from_pytorch(program: Any, input_infos: Sequence[tuple[str, Any]] | None = None, **ignored: Any) -> Imported:
    """Import what `torch.export.export` gives: a relax module for `relay.build`, and weights by name.

    `input_infos`: the inputs in order, each (name, shape) or (name, (shape, dtype)); "main" takes these names. Other
    options of TVM's change nothing. Raises ArgumentError for what is no exported program, and what
    `relax.frontend.torch.from_exported_program` raises.
    """
    if not hasattr(program, "graph_signature"):
        raise ArgumentError(
            f"relay.frontend.from_pytorch takes an exported program, not a {type(program).__name__}",
            hint="torch.export.export(model.eval(), example_inputs)",
        )
    from compiler.frontend.torch.exported import from_exported_program  # loads torch

    module, params = _apart(from_exported_program(program, keep_params_as_input=True, unwrap_unit_return_tuple=True))
    return (module if input_infos is None else _renamed(module, [name for name, _ in input_infos]), params)


def _apart(module: IRModule) -> Imported:
    """The module without its weights' values, and these by the names of their parameters."""
    main = module["main"]
    assert isinstance(main, Function)
    bare, params = detach_params(module)
    values = params.get("main", [])
    names = [param.name_hint for param in main.params][len(main.params) - len(values) :]
    return bare, dict(zip(names, values))


def _renamed(module: IRModule, names: Sequence[str]) -> IRModule:
    """The module whose "main" calls its inputs by these names."""
    main = module["main"]
    assert isinstance(main, Function)
    if len(names) > len(main.params):
        raise ArgumentError(f"{len(names)} inputs are named, and the model has {len(main.params)}")
    named: dict[Any, Var] = {param: Var(name, param.struct_info) for param, name in zip(main.params, names)}
    rest = main.bind_params(named)
    params = [*named.values(), *rest.params]
    renamed = Function(params, rest.body, rest.ret_struct_info, rest.is_pure, rest.attrs)
    functions = dict(module.functions)
    functions[next(name for name in functions if name.name_hint == "main")] = renamed
    return module.with_functions(functions)
