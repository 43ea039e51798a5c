"""Merge several kernels into one.

Each writes its result into an array of the new kernel, which the next one reads.

    y = exp(x)             fused(x, z):
    z = y * 2.0    →         alloc y
                             block exp:       y[i] = exp(x[i])
                             block multiply:  z[i] = y[i] * 2.0

Variables that stand for dimensions stay variables; constants without dimensions become numbers in the code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.visit import replace
from compiler.lower.blocks.split_preproc import LAYOUT_FREE, layout_free
from compiler.relax.names import FreshNames
from compiler.relax.nodes import Constant
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.nodes.specialize import RenewedDefinitions, Vars
from compiler.tir.renew import renew_defs
from compiler.tir.visit import free_vars, seq

_IMMEDIATE = ("float32", "float64", "int32", "int64", "int8", "uint8", "bool")
Shapes = Mapping[object, Sequence[PrimExpr]]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call of a kernel: names (any objects) of its array arguments and results, its scalar arguments."""

    kernel: n.PrimFunc
    inputs: tuple[object, ...]
    outputs: tuple[object, ...]
    scalars: tuple[PrimExpr, ...]


@dataclass(frozen=True, slots=True)
class MergedKernel:
    """A kernel made of several.
    It takes the arrays `inputs`, its results, then a value for each of `scalars`."""

    func: n.PrimFunc
    inputs: tuple[object, ...]
    scalars: tuple[n.Var, ...]


def as_immediate(constant: Constant) -> PrimExpr | None:
    """Return a constant without dimensions as a number in code.
    None for any other, and for one that cannot be printed."""
    if constant.data.ndim or constant.data.dtype not in _IMMEDIATE:
        return None
    value = constant.array.item()
    return ops.const(value, constant.data.dtype) if math.isfinite(value) else None


def merged(
    steps: Sequence[KernelCall],
    results: Sequence[object],
    shapes: Shapes,
    numbers: Mapping[object, PrimExpr],
    names: Mapping[object, str],
) -> MergedKernel:
    """The kernel that has the statements of all `steps` one after another, and gives `results`.

    `shapes` has the dimensions of all arrays, in the caller's variables, which become the kernel's. Arrays that no step
    makes are its arguments, except those without dimensions that `numbers` gives values for. `names` suggests names of
    arguments. Raises IRError where a kernel is not called as it declares.
    """
    merger = _Merger(results, shapes, numbers, names)
    for step in steps:
        merger.add(step)
    return merger.finished()


class _Merger:
    def __init__(
        self, results: Sequence[object], shapes: Shapes, numbers: Mapping[object, PrimExpr], names: Mapping[object, str]
    ) -> None:
        self._results = list(results)
        self._shapes = shapes
        self._numbers = numbers
        self._hints = names
        self._buffers: dict[object, n.Buffer] = {}
        self._inputs: list[object] = []
        self._local: list[n.Buffer] = []
        self._stmts: list[n.Stmt] = []
        self._free: set[n.Buffer] = set()
        self._names = FreshNames()
        self._blocks = FreshNames()
        self._blocks.take("root")

    def add(self, step: KernelCall) -> None:
        """Append the statements of a kernel, over the buffers of this one."""
        func = renew_defs(step.kernel)
        arrays = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
        scalars = [param for param in func.params if param not in func.buffer_map]
        keys = [*step.inputs, *step.outputs]
        if len(arrays) != len(keys) or len(scalars) != len(step.scalars):
            raise IRError(
                f"a kernel of {len(arrays)} arrays and {len(scalars)} scalars is called with {len(keys)} and "
                f"{len(step.scalars)}"
            )
        known: Vars = {param: ops.cast(param.dtype, value) for param, value in zip(scalars, step.scalars)}
        for key, own in zip(keys, arrays):
            for size, given in zip(own.shape, self._shapes[key]):
                if isinstance(size, n.Var):
                    known.setdefault(size, ops.cast(size.dtype, given))
        copy = _Copy(known, self._blocks)
        free = layout_free(func)
        for key, own in zip(keys, arrays):
            if key in self._numbers:
                copy.numbers[own] = self._numbers[key]
                continue
            buffer = self._buffers.get(key)
            if buffer is None:
                buffer = self._define(key, own, copy, made=key in step.outputs)
            copy.set(own, buffer)
            if own in free:
                self._free.add(buffer)
        root = func.body
        assert isinstance(root, n.BlockRealize)
        for own in root.block.alloc_buffers:
            buffer = replace(copy.buffer(own), name=self._names.unique(own.name))
            copy.set(own, buffer)
            self._local.append(buffer)
        stmt = copy.node(root.block.body)
        assert isinstance(stmt, n.Stmt)
        self._stmts.append(stmt)

    def _define(self, key: object, own: n.Buffer, copy: _Copy, made: bool) -> n.Buffer:
        """The buffer of an array that is seen first."""
        name = own.name if made else self._hints.get(key, own.name)
        buffer: n.Buffer = n.decl_buffer(copy.buffer(own).shape, own.dtype, self._names.unique(name))
        self._buffers[key] = buffer
        if not made:
            self._inputs.append(key)
        elif key not in self._results:
            self._local.append(buffer)
        return buffer

    def finished(self) -> MergedKernel:
        buffers = [self._buffers[key] for key in (*self._inputs, *self._results)]
        params = [n.Var(f"var_{buffer.name}", "handle") for buffer in buffers]
        root = n.Block((), (), (), "root", seq(*self._stmts), alloc_buffers=tuple(self._local))
        body = n.BlockRealize((), ops.const(True), root)
        bound = {size for buffer in buffers for size in buffer.shape if isinstance(size, n.Var)}
        mentioned = [expr for buffer in (*buffers, *self._local) for expr in buffer.shape]
        used = free_vars(body).union(*map(free_vars, mentioned)) - {buffer.data for buffer in (*buffers, *self._local)}
        scalars = tuple(sorted(used - bound, key=lambda var: var.name))
        attrs: dict[str, object] = {"tir.noalias": True}
        positions = tuple(place for place, buffer in enumerate(buffers) if buffer in self._free)
        if positions:
            attrs[LAYOUT_FREE] = positions
        func = n.PrimFunc((*params, *scalars), body, None, dict(zip(params, buffers)), attrs)
        return MergedKernel(func, tuple(self._inputs), scalars)


class _Copy(RenewedDefinitions):
    """Copies statements over other buffers, some of which are numbers; blocks get names that no other has."""

    def __init__(self, known: Vars, names: FreshNames) -> None:
        super().__init__(known)
        self.numbers: dict[n.Buffer, PrimExpr] = {}
        self._names = names

    def set(self, own: n.Buffer, buffer: n.Buffer) -> None:
        self._buffers[own] = buffer

    def node(self, node: Node) -> Node:
        if isinstance(node, n.BufferLoad) and node.buffer in self.numbers:
            return self.numbers[node.buffer]
        if isinstance(node, n.Block) and self.numbers:
            node = replace(node, reads=tuple(r for r in node.reads if r.buffer not in self.numbers))
        rebuilt = super().node(node)
        if isinstance(rebuilt, n.Block):
            return replace(rebuilt, name_hint=self._names.unique(rebuilt.name_hint))
        return rebuilt
