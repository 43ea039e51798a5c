"""`from_fx`: a traced graph of modules and functions, as a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from compiler.errors import ArgumentError
from compiler.frontend.torch.dtypes import DTYPES
from compiler.frontend.torch.exported import ProgramImport, prepared
from compiler.frontend.torch.importer import Own
from compiler.ir.module import IRModule
from compiler.tir.nodes import Var

InputInfo = Sequence[tuple[Sequence[Any], str]]


def from_fx(
    model: Any, input_info: InputInfo, *, keep_params_as_input: bool = False, unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False, custom_convert_map: Mapping[str, Own] | None = None,
) -> IRModule:  # fmt: skip
    """Turn a `torch.fx.GraphModule` into a module with the function "main".

    `input_info` has a shape and an element type for each input; a `tir.Var` of int64 in a shape is a symbolic
    dimension. The graph is traced once more, down to ATen operators, so that all that `from_exported_program` knows
    is known here. Parameters are called inp_0, inp_1, ...; options and errors are those of `from_exported_program`.
    """
    if not isinstance(model, torch.fx.GraphModule):
        raise ArgumentError(
            f"a GraphModule is wanted, not {type(model).__name__}", hint="torch.fx.symbolic_trace(model) makes one"
        )
    inputs, dynamic, symbols = _examples(input_info)
    with torch.no_grad():
        program = torch.export.export(model, inputs, dynamic_shapes=dynamic if symbols else None)
    own = custom_convert_map or {}
    program, writes = prepared(program, own)
    work = ProgramImport(program, writes, own, keep_params_as_input, "inp_{}")
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"][-len(inputs) :] if inputs else []
    for position, axis, var in symbols:
        work.dimensions.rename(str(nodes[position].meta["val"].shape[axis]), var)
    plain = program.call_spec.out_spec.is_leaf()
    return work.module(unwrap_unit_return_tuple or plain, no_bind_return_tuple)


_SIZES = (3, 5, 7, 11, 13, 17, 19, 23)
"""What symbolic dimensions are while the graph is traced."""


def _examples(input_info: InputInfo) -> tuple[tuple[Any, ...], tuple[Any, ...], list[tuple[int, int, Var]]]:
    """Inputs to trace with, what of them may change, and where the variables stand."""
    sizes: dict[Var, tuple[int, Any]] = {}
    inputs, dynamic, symbols = [], [], []
    for position, (shape, dtype) in enumerate(input_info):
        if dtype not in DTYPES:
            raise ArgumentError(f"the input {position} has elements of {dtype!r}, which torch does not know")
        extents, free = [], {}
        for axis, size in enumerate(shape):
            if isinstance(size, Var):
                if size not in sizes:
                    sizes[size] = _SIZES[len(sizes) % len(_SIZES)], torch.export.Dim(size.name)
                extents.append(sizes[size][0])
                free[axis] = sizes[size][1]
                symbols.append((position, axis, size))
            else:
                extents.append(int(size))
        inputs.append(torch.ones(extents, dtype=DTYPES[dtype]))
        dynamic.append(free or None)
    return tuple(inputs), tuple(dynamic), symbols
