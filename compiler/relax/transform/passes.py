"""Passes over graphs, and the table of them.

A pass is registered where it is defined. That is all there is to do besides a row in
`compiler/relax/transform/pipeline.py`, if it belongs to the usual way from a graph to an executable:

    @relax_pass("LegalizeOps")
    def legalize_ops(mod, context):
        '''Replace operators by calls of kernels that compute them.'''

Contexts and instruments know it as `LegalizeOps`; `relax.transform.LegalizeOps()` makes it for a `Sequential`; the
first paragraph of the docstring is its description. What the function takes by keyword is what the pass takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from compiler.errors import IRError
from compiler.ir.module import IRModule
from compiler.ir.transform.config import TransformError
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import FunctionPass, ModulePass, Pass, PassInfo, pass_decorator
from compiler.ir.transform.table import PassTable, description
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import BindingBlock, DataflowBlock, DataflowVar, Function

F = TypeVar("F", bound=Callable[..., Any])
Over = Literal["module", "function", "block"]
"""What a pass's function takes first: a module, a graph function, or a dataflow block."""


class RelaxFunctionPass(FunctionPass):
    """A pass over each graph function by itself: `function(func, mod, context)`.
    None removes the function."""

    of = Function


class DataflowBlockPass(Pass):
    """A pass over each dataflow block by itself: `function(block, mod, context)`.

    What other blocks use must stay: the variables that are not `DataflowVar`s, and the dimensions it gives a value to.
    """

    def __init__(
        self, function: Callable[[DataflowBlock, IRModule, PassContext], DataflowBlock], info: PassInfo
    ) -> None:
        self._function = function
        self.info = info

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return rewritten(mod, lambda own: _Blocks(own, lambda block: self._made(block, mod, context)))

    def _made(self, block: DataflowBlock, mod: IRModule, context: PassContext) -> DataflowBlock:
        made = self._function(block, mod, context)
        if not isinstance(made, DataflowBlock):
            raise TransformError(f"{self.info.name} must return a DataflowBlock, not a {type(made).__name__}")
        return made


class _Blocks(PyExprMutator):
    """Puts the result of a function in the place of each dataflow block."""

    def __init__(self, mod: IRModule, function: Callable[[DataflowBlock], DataflowBlock]) -> None:
        super().__init__(mod)
        self._block_function = function

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        made = self._block_function(block)
        kept = {binding.var for binding in made.bindings}
        for binding in block.bindings:
            if not isinstance(binding.var, DataflowVar) and binding.var not in kept:
                raise IRError(f"a pass over dataflow blocks removed the output {binding.var.name_hint}")
        return super().visit_dataflow_block_(made)


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(func, mod, ctx)`, or of a class with `transform_function(self, func, mod, ctx)`.

    `func` is a graph function. Otherwise as `module_pass`.
    """
    return pass_decorator(pass_func, opt_level, name, required, traceable, RelaxFunctionPass, "transform_function")


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(block, mod, ctx)`, or of a class with `transform_dataflowblock`.

    The method takes (self, block, mod, ctx). `block` is a dataflow block. Otherwise as `module_pass`.
    """
    return pass_decorator(pass_func, opt_level, name, required, traceable, DataflowBlockPass, "transform_dataflowblock")


# ---------------------------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class RelaxPass:
    """A registered pass. Those of level 0 are needed for code, those above only make it faster."""

    title: str
    function: Callable[..., Any]
    over: Over
    opt_level: int

    @property
    def info(self) -> PassInfo:
        return PassInfo(self.opt_level, self.title)

    @property
    def description(self) -> str:
        return description(self)

    def make(self, *args: Any, **kwargs: Any) -> Pass:
        """Make the pass: its function with these arguments.
        Raises TypeError for arguments that it does not take."""
        given = self.signature.bind(*args, **kwargs).arguments
        function = self.function
        match self.over:
            case "module":
                return ModulePass(lambda mod, context: function(mod, context, **given), self.info)
            case "function":
                return RelaxFunctionPass(lambda func, mod, context: function(func, mod, context, **given), self.info)
            case "block":
                return DataflowBlockPass(lambda block, mod, context: function(block, mod, context, **given), self.info)

    @property
    def signature(self) -> inspect.Signature:
        """The arguments of `make`: those that the function takes by keyword."""
        parameters = inspect.signature(self.function).parameters.values()
        plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([p.replace(kind=plain) for p in parameters if p.kind is p.KEYWORD_ONLY])


_table: PassTable[RelaxPass] = PassTable("graph pass")
relax_passes = _table.all
pass_constructors = _table.constructors
find_pass = _table.find
pass_of = _table.of


def relax_pass(title: str, *, over: Over = "module", opt_level: int = 0) -> Callable[[F], F]:
    """Register the decorated function as the pass `title`; it can still be called. See `RelaxPass`.

    It is `function(mod, context)`, `function(func, mod, context)` or `function(block, mod, context)`, as `over` says.
    Raises TransformError when the title is taken.
    """

    def register(function: F) -> F:
        _table.add(RelaxPass(title, function, over, opt_level))
        return function

    return register


# ------------------------------------------------------------------------------------ helpers


def rewritten(mod: IRModule, mutator: Callable[[IRModule], PyExprMutator]) -> IRModule:
    """`mod` with each graph function as a rewriter makes it, and the functions that the rewriter adds."""
    rewriter = mutator(mod)
    builder: BlockBuilder = rewriter.builder_
    for name, func in mod.items():
        if isinstance(func, Function) and func.body is not None:
            made = rewriter.visit_expr(func)
            if made is not func:
                builder.update_func(name, made)
    return builder.get()
