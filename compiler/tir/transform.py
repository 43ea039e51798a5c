"""Passes over TensorIR functions, and the table of those that have a name.

A pass is registered where it is defined. That is all there is to do besides a row in `compiler/driver/pipeline.py`:

    @tir_pass("UnrollLoop", gives=Stage.LOWERED, options={"config": UNROLL.value})
    def unroll(func, vector_bits=256, *, config=NO_MORE):
        '''Mark loops to unroll: pragmas, register tiles, and what the option tir.UnrollLoop says.'''

Contexts and instruments know it as `tir.UnrollLoop`; `tir.transform.UnrollLoop()` makes it for a `Sequential`; the
first paragraph of the docstring is its description there and in `docs/passes.md`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import FunctionPass, ModulePass, Pass, PassInfo, pass_decorator
from compiler.ir.transform.table import PassTable, description
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.verify import LoweringStage

Rewrite = Callable[[n.PrimFunc], n.PrimFunc]
Setting = Callable[[PassContext | None], Any]
F = TypeVar("F", bound=Callable[..., n.PrimFunc | IRModule])
Over = Literal["function", "module"]
"""What a pass's function takes: a TensorIR function, or a module, to add functions to it."""


class PrimFuncPass(FunctionPass):
    """A pass over each TensorIR function by itself: `function(func, mod, context)`.
    None removes the function."""

    of = n.PrimFunc

    def __init__(
        self, function: Callable[[n.PrimFunc, IRModule, PassContext], n.PrimFunc | None], info: PassInfo
    ) -> None:
        super().__init__(function, info)


def prim_func_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(func, mod, ctx)`, or of a class with `transform_function(self, func, mod, ctx)`.

    Otherwise as `module_pass`.
    """
    return pass_decorator(pass_func, opt_level, name, required, traceable, PrimFuncPass, "transform_function")


# ---------------------------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class TirPass:
    """A registered pass: `function(func)`.

    It also takes `vector_bits` and what `options` give as keywords, where it has them. `gives` says which rules of
    `compiler.tir.verify` hold of its result. Passes of level 0 are needed for code, those of level 1 only make it
    faster.
    """

    title: str
    function: Callable[..., Any]
    over: Over
    opt_level: int
    gives: LoweringStage | None
    options: Mapping[str, Setting]
    takes_vector_bits: bool

    @property
    def info(self) -> PassInfo:
        return PassInfo(self.opt_level, f"tir.{self.title}")

    @property
    def description(self) -> str:
        return description(self)

    def bound(self, vector_bits: int, context: PassContext | None, given: Mapping[str, Any] | None = None) -> Rewrite:
        """Return the pass as a function of one function. `given` options take precedence over the context's."""
        settings = {name: value(context) for name, value in self.options.items()}
        settings.update(given or {})
        if self.takes_vector_bits:
            settings["vector_bits"] = vector_bits
        function = self.function
        return (lambda func: function(func, **settings)) if settings else function

    def make(self, *args: Any, **kwargs: Any) -> Pass:
        """Make the pass for a `Sequential`, configured by the arguments and its context.
        It is the context that the pass will run under."""
        function = self.function
        if self.over == "module":
            self.signature.bind(*args, **kwargs)
            return ModulePass(lambda mod, _context: function(mod), self.info)
        given = self.signature.bind(*args, **kwargs).arguments
        defaults = self.signature.parameters
        given = {name: value for name, value in given.items() if value != defaults[name].default}

        def run(func: n.PrimFunc, _mod: IRModule, context: PassContext) -> n.PrimFunc:
            bits = _vector_bits(func) if self.takes_vector_bits else 0
            return self.bound(bits, context, given)(func)

        return PrimFuncPass(run, self.info)

    @property
    def signature(self) -> inspect.Signature:
        """The arguments of `make`: those of the function that options give."""
        parameters = inspect.signature(self.function).parameters
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([parameters[name].replace(kind=kind) for name in self.options])


_table: PassTable[TirPass] = PassTable("pass", "tir.")
tir_passes = _table.all
pass_constructors = _table.constructors
find_pass = _table.find
pass_of = _table.of


def tir_pass(
    title: str, *, over: Over = "function", opt_level: int = 0, gives: LoweringStage | None = None,
    options: Mapping[str, Setting] | None = None,
) -> Callable[[F], F]:  # fmt: skip
    """Register the decorated function as the pass `tir.<title>`; it can still be called. See `TirPass`.

    A pass over modules takes no options.

    Raises TransformError when the title is taken.
    """

    def register(function: F) -> F:
        takes_bits = "vector_bits" in inspect.signature(function).parameters
        _table.add(TirPass(title, function, over, opt_level, gives, options or {}, takes_bits))
        return function

    return register


def _vector_bits(func: n.PrimFunc) -> int:
    """The vector width of the function's target, else of the current one, else of this machine."""
    target = func.attrs.get("target") or Target.current_or_default()
    return Target(target).resolved().vector_bits


# ------------------------------------------------------------------------ passes with arguments


def Apply(ftransform: Rewrite) -> Pass:
    """Call a Python function on each function."""
    return PrimFuncPass(lambda func, _mod, _context: ftransform(func), PassInfo(0, "tir.Apply"))


def Filter(fcond: Callable[[n.PrimFunc], bool]) -> Pass:
    """Keep the functions for which `fcond` holds."""
    return PrimFuncPass(lambda func, _mod, _context: func if fcond(func) else None, PassInfo(0, "tir.Filter"))


def BindTarget(target: Target) -> Pass:
    """Note the target in the attributes of each function that has none."""
    return PrimFuncPass(
        lambda func, _mod, _context: func if "target" in func.attrs else func.with_attr("target", Target(target)),
        PassInfo(0, "tir.BindTarget"),
    )
