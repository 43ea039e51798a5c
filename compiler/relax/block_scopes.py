"""The `with` blocks of a `BlockBuilder`: functions, dataflow blocks, and places to try things in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from compiler.ir.base import RelaxExpr
from compiler.relax.names import FreshNames
from compiler.relax.nodes import Binding, BindingBlock, ShapeExpr, StructInfo, TupleStructInfo, Var
from compiler.tir import nodes as n


class OpenBlock:
    """A block being filled; `emitted` are nested expressions and the variables that stand for them."""

    __slots__ = ("bindings", "dataflow", "emitted")

    def __init__(self, dataflow: bool) -> None:
        self.dataflow = dataflow
        self.bindings: list[Binding] = []
        self.emitted: dict[int, tuple[RelaxExpr, Var]] = {}


class NameScope:
    """Names and dimensions that may be used."""

    __slots__ = ("names", "symbols")

    def __init__(self, names: FreshNames, symbols: set[n.Var]) -> None:
        self.names = names
        self.symbols = symbols


class FunctionFrame:
    """A function that is being built."""

    __slots__ = ("attrs", "blocks", "done", "name", "params", "private", "pure")

    def __init__(
        self, name: str, params: list[Var] | None, attrs: Mapping[str, Any], pure: bool, private: bool
    ) -> None:
        self.name = name
        self.params = params
        self.attrs = attrs
        self.pure = pure
        self.private = private
        self.blocks: list[BindingBlock] = []
        self.done = False


class Building(Protocol):
    """The builder that the blocks belong to."""

    def begin_scope(self, params: Sequence[Var] | None = None) -> None:
        """Enter a scope."""

    def end_scope(self) -> None:
        """Leave it."""

    def _begin_dataflow_block(self) -> None: ...

    def _end_block(self) -> BindingBlock: ...

    def _enter_function(self, frame: FunctionFrame) -> None: ...

    def _leave_function(self, frame: FunctionFrame, *, failed: bool) -> None: ...

    def _next_block(self, dataflow: bool) -> None: ...


class FunctionScope:
    """The body of a function, for `with bb.function(...)`."""

    def __init__(
        self, block_builder: Building, name: str, params: Sequence[Var] | None, attrs: Mapping[str, Any], is_pure: bool,
        private: bool = False,
    ) -> None:  # fmt: skip
        self._bb = block_builder
        self._frame = FunctionFrame(name, None if params is None else list(params), attrs, is_pure, private)

    def __enter__(self) -> FunctionScope:
        self._bb._enter_function(self._frame)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._bb._leave_function(self._frame, failed=kind is not None)


class DataflowScope:
    """A dataflow block, for `with bb.dataflow()`."""

    def __init__(self, block_builder: Building) -> None:
        self._bb = block_builder

    def __enter__(self) -> DataflowScope:
        self._bb._next_block(dataflow=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self._bb._next_block(dataflow=False)


class TestingScope:
    """A scope with known dimensions and no function, for `with bb.testing_scope(def_vars=[n])`."""

    __test__ = False  # not pytest's

    def __init__(self, block_builder: Building, def_vars: Sequence[n.Var]) -> None:
        self._bb = block_builder
        self._shape_vars = [Var("shape", _shape_info(def_vars))]

    def __enter__(self) -> TestingScope:
        self._bb.begin_scope(self._shape_vars)
        self._bb._begin_dataflow_block()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self._bb._end_block()
        self._bb.end_scope()


def _shape_info(def_vars: Sequence[n.Var]) -> StructInfo:
    info = ShapeExpr(tuple(def_vars)).struct_info_
    assert info is not None
    return TupleStructInfo((info,))
