"""Random graphs of every operator, each fed by others: 5 to 60 of them, tuples, conditions, shared weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.tir import nodes as n
from tests.kit.compiler.operator_graph_steps import AFTER, OTHERS
from tests.kit.compiler.random_graphs import Graph
from tests.kit.compiler.relax_ops import Case, dims_of
from tests.kit.compiler.topi import data

FEWEST, MOST = 5, 60
_KEPT = 8
"""How many values may be chosen from: near ones, so that fusion has something to do."""


def operators_of(seed: int, cases: dict[str, list[Case]], most: int = MOST) -> list[str]:
    """The operators of the graph `seed`, in the order in which it has them."""
    rng = random.Random(f"operators {seed}")
    return rng.choices(sorted([*cases, *OTHERS, *AFTER]), k=rng.randint(FEWEST, most))


def operator_graph(seed: int, cases: dict[str, list[Case]], most: int = MOST) -> Graph:
    """A graph of operators of `cases`, which has those of each operator by its name.

    Between them are a few that bring values into shape: tanh, reshape, take, mean and broadcast_to.
    """
    return _Maker(random.Random(seed), cases).made(operators_of(seed, cases, most))


class _Maker:
    def __init__(self, rng: random.Random, cases: dict[str, list[Case]]) -> None:
        self.rng = rng
        self._cases = cases
        self.builder = BlockBuilder()
        self._numbers = np.random.default_rng(rng.randrange(1 << 30))
        self._symbolic = rng.random() < 0.5
        self._symbols: dict[tuple[str, int], n.Var] = {}
        self._params: list[r.Var] = []
        self._arrays: list[Any] = []
        self._shared: dict[Any, list[r.Var]] = {}
        self._values: list[r.Var] = []
        self._named = 0

    def made(self, names: list[str]) -> Graph:
        rng, bb = self.rng, self.builder
        each = -(-len(names) // rng.randint(1, 3))
        outs: list[Any] = []
        with bb.function("main", None, pure=AFTER.keys().isdisjoint(names)):
            for begin in range(0, len(names), each):
                now = names[begin : begin + each]
                with bb.dataflow():
                    for name in now:
                        if name not in AFTER:
                            self._step(name)
                    seen = [bb.emit_output(value) for value in self._sinks()]
                outs += seen
                self._values = [var for var in seen if _is_float(var)][-_KEPT:]
                done = [bb.emit(AFTER[name](self)) for name in now if name in AFTER]
                self._values += [var for var in done if _is_float(var)]
                if self._values and rng.random() < 0.5:
                    self._values.append(bb.emit(self._condition()))
            bb.emit_func_output(r.Tuple((*outs, *self._values[-1:])), self._params)
        return Graph(bb.get(), self._arrays)

    # ---------------------------------------------------------------------------------- values

    def _step(self, name: str) -> None:
        if name in OTHERS:
            made: r.Var = self.builder.emit(OTHERS[name](self))
        else:
            case = self.rng.choice(self._cases[name])
            sizes = case.sizes[0]
            dtype = self.rng.choice(list(case.dtypes))
            args = [self._argument(case, place, dtype, sizes) for place in range(len(case.shapes))]
            made = self.builder.emit(case.build(*args))
        info = r.info_of(made)
        if isinstance(info, r.TupleStructInfo):
            parts = [self.builder.emit(r.TupleGetItem(made, place)) for place in range(len(info.fields))]
            if self.rng.random() < 0.5:  # packed once more
                again = self.builder.emit(r.Tuple(tuple(parts)))
                parts = [self.builder.emit(r.TupleGetItem(again, place)) for place in range(len(parts))]
            self._values += parts
        else:
            self._values.append(made)

    def _argument(self, case: Case, place: int, dtype: str, sizes: dict[str, int]) -> r.Var:
        """Return an argument for a case: a value of the graph if any will do, or a parameter, often a shared one."""
        kind = case.dtype(place, dtype)
        dims = dims_of(case.shapes[place], {name: self._size(name, size) for name, size in sizes.items()})
        own = place in case.values
        if kind == "float32" and not own and self.rng.random() < 0.6:
            found = self._from_graph(dims)
            if found is not None:
                return found
        key = (kind, tuple(map(str, dims)), (case.name, place) if own else None)
        known = self._shared.setdefault(key, [])
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        array = data(*dims_of(case.shapes[place], sizes), dtype=kind, rng=self._numbers)
        if own:
            array = np.asarray(case.values[place](array)).astype(array.dtype)
        known.append(self._param(dims, kind, array))
        return known[-1]

    def _param(self, dims: Sequence[Any], dtype: str, array: Any) -> r.Var:
        made = r.Var(f"p{len(self._params)}", r.TensorStructInfo(tuple(dims), dtype))  # type: ignore[arg-type]
        self._params.append(made)
        self._arrays.append(array)
        return made

    def _size(self, name: str, size: int) -> Any:
        if not self._symbolic or name not in ("n", "m"):
            return size
        if (name, size) not in self._symbols:  # an argument tells its value, whoever uses it
            made = self._symbols[name, size] = n.Var(f"{name}{size}", "int64")
            self._param((made,), "float32", data(size, rng=self._numbers))
        return self._symbols[name, size]

    def _from_graph(self, dims: Sequence[Any]) -> r.Var | None:
        """A value of the graph as a tensor of `dims`, its elements between -1 and 1."""
        bb, rng = self.builder, self.rng
        near = [value for value in self._values[-_KEPT:] if _is_float(value)]
        if not near:
            return None
        exact = [value for value in near if _dims(value) == tuple(map(str, dims))]
        value = bb.emit(op.tanh(rng.choice(exact or near)))
        if exact:
            return value
        static = all(isinstance(size, int) for size in dims)
        count = int(np.prod([int(size) for size in dims])) if static else 0
        if static and count and rng.random() < 0.7:
            places = self._numbers.integers(0, 1 << 20, count).astype("int64")
            flat = bb.emit(op.reshape(value, (-1,)))
            held = r.info_of(flat)
            assert isinstance(held, r.TensorStructInfo)
            assert held.dims is not None
            if isinstance(held.dims[0], n.IntImm) and held.dims[0].value:
                picked = bb.emit(op.take(flat, r.const(places % held.dims[0].value), axis=0))
                return bb.emit(op.reshape(picked, tuple(dims)))
        return bb.emit(op.broadcast_to(bb.emit(op.mean(value)), tuple(dims)))

    def any_float(self) -> r.Var:
        """Some value or parameter of numbers."""
        near = [value for value in self._values[-_KEPT:] if _is_float(value)]
        return self.rng.choice(near) if near else self._param((3, 4), "float32", data(3, 4, rng=self._numbers))

    def parameter(self, *shape: int) -> r.Var:
        """A parameter of numbers, which others may read as well."""
        known = self._shared.setdefault(("own", shape), [])
        if not known or self.rng.random() < 0.3:
            known.append(self._param(shape, "float32", data(*shape, rng=self._numbers)))
        return self.rng.choice(known)

    def symbol(self) -> n.Var:
        """A dimension that is named nowhere yet."""
        self._named += 1
        return n.Var(f"k{self._named}", "int64")

    def _condition(self) -> r.If:
        value = self.rng.choice(self._values)
        holds = self._param((), "bool", np.array(self.rng.random() < 0.5))
        return r.If(holds, r.SeqExpr((), op.add(value, value)), r.SeqExpr((), op.tanh(op.negative(value))))

    def _sinks(self) -> list[r.Var]:
        """The values of the block that nothing of it reads."""
        bindings = self.builder._blocks[-1].bindings
        read = {arg for binding in bindings for arg in _read(binding.value)}
        return [b.var for b in bindings if b.var not in read and not isinstance(r.info_of(b.var), r.TupleStructInfo)]


def _read(value: Any) -> list[Any]:
    if isinstance(value, r.TupleGetItem):
        return [value.tuple_value]
    parts = value.fields if isinstance(value, r.Tuple) else getattr(value, "args", ())
    return [item for part in parts for item in (part.fields if isinstance(part, r.Tuple) else (part,))]


def _dims(value: r.Var) -> tuple[str, ...]:
    info = r.info_of(value)
    assert isinstance(info, r.TensorStructInfo)
    return tuple(map(str, info.dims or ()))


def _is_float(value: r.Var) -> bool:
    info = r.info_of(value)
    return isinstance(info, r.TensorStructInfo) and info.dtype == "float32" and info.dims is not None
