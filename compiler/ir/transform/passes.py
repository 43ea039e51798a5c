"""Passes as objects: a function over modules or functions, with a name, a level and requirements.

    @module_pass(opt_level=1)
    def drop_helpers(mod, ctx): ...

    mod = Sequential([drop_helpers])(mod)

Each dialect adds passes over its own functions (`FunctionPass`).
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from compiler.ir.module import IRModule
from compiler.ir.transform.config import TransformError
from compiler.ir.transform.context import PassContext
from compiler.suggest import closest

ModuleFunction = Callable[[IRModule, PassContext], IRModule]


@dataclass(frozen=True, slots=True)
class PassInfo:
    """The description of a pass for contexts and instruments.
    `required`: passes a sequence runs before it."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()
    traceable: bool = False


class Pass(ABC):
    """A function from module to module. The module that it is given stays as it is."""

    info: PassInfo

    @abstractmethod
    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        """The new module. Callers use the pass as a function, which tells the instruments too."""

    def __call__(self, mod: IRModule) -> IRModule:
        """Run under the current context, and let its instruments watch. Raises TransformError for no module."""
        if not isinstance(mod, IRModule):
            raise TransformError(
                f"{self.info.name} takes an IRModule, not a {type(mod).__name__}",
                hint="put a function in a module: IRModule.from_expr(func)",
            )
        context = PassContext.current()
        if not context.before_pass(mod, self.info):
            return mod
        result = self.transform(mod, context)
        if not isinstance(result, IRModule):
            raise TransformError(f"{self.info.name} must return an IRModule, not a {type(result).__name__}")
        context.after_pass(result, self.info)
        return result

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.info.name}, opt_level {self.info.opt_level}>"


class ModulePass(Pass):
    """A pass over whole modules: `function(mod, context)`."""

    def __init__(self, function: ModuleFunction, info: PassInfo) -> None:
        self._function = function
        self.info = info

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return self._function(mod, context)


class FunctionPass(Pass):
    """A pass over each function of one kind by itself: `function(func, mod, context)`.

    None removes the function. Each dialect derives its own: `of` is the class of its functions. Functions of other
    kinds stay as they are.
    """

    of: ClassVar[type[Any]]

    def __init__(self, function: Callable[[Any, IRModule, PassContext], Any], info: PassInfo) -> None:
        self._function = function
        self.info = info

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        functions: dict[Any, Any] = {}
        for name, func in mod.items():
            new = self._function(func, mod, context) if isinstance(func, self.of) else func
            if new is not None and not isinstance(new, type(func)):
                raise TransformError(f"{self.info.name} must return a {self.of.__name__}, not a {type(new).__name__}")
            if new is not None:
                functions[name] = new
        return mod.with_functions(functions)


class Sequential(Pass):
    """Passes one after another. Those the context does not enable are left out."""

    def __init__(
        self, passes: Sequence[Pass] | None = None, opt_level: int = 0, name: str = "sequential",
        required: Sequence[str] | None = None, traceable: bool = False,
    ) -> None:  # fmt: skip
        self.passes = tuple(passes or ())
        for step in self.passes:
            if not isinstance(step, Pass):
                raise TransformError(f"a sequence is made of passes; {step!r} is none")
        self.info = PassInfo(opt_level, name, tuple(required or ()), traceable)

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        for step in self.passes:
            if not context.enabled(step.info):
                continue
            for name in step.info.required:
                needed = get_pass(name)
                if context.enabled(needed.info):
                    mod = needed(mod)
            mod = step(mod)
        return mod


# ---------------------------------------------------------------------------------- by name

_by_name: dict[str, Callable[[], Pass]] = {}


def register_pass(name: str, make: Callable[[], Pass]) -> None:
    """Let `required` name a pass. Raises TransformError when the name is taken."""
    if name in _by_name:
        raise TransformError(f"a pass {name!r} is already registered")
    _by_name[name] = make


def get_pass(name: str) -> Pass:
    """A registered pass. Raises TransformError listing those there are."""
    make = _by_name.get(name)
    if make is None:
        raise TransformError(f"there is no pass {name!r}", hint=closest(name, _by_name))
    return make()


# ------------------------------------------------------------------------------- decorators


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of `f(mod, ctx)`, or of a class with `transform_module(self, mod, ctx)`.

    A function becomes a pass, a class a class of passes that takes the same arguments. `name` is the function's by
    default. Raises TransformError (a ValueError) without `opt_level`.
    """
    return pass_decorator(pass_func, opt_level, name, required, traceable, ModulePass, "transform_module")


def pass_decorator(
    pass_func: Any, opt_level: int | None, name: str | None, required: Sequence[str] | None, traceable: bool, base: Any,
    method: str,
) -> Any:  # fmt: skip
    """Build a decorator of passes.
    It makes a `base` of a function; of a class with `method`, a class of such passes."""
    if opt_level is None:
        raise TransformError("a pass needs its opt_level", hint="@module_pass(opt_level=0)")
    level = opt_level

    def make(target: Any) -> Any:
        if not callable(target):
            raise TransformError(f"a pass is made of a function or a class, not of {target!r}")
        own_name = name or str(getattr(target, "__name__", type(target).__name__))
        info = PassInfo(level, own_name, tuple(required or ()), traceable)
        return _pass_class(target, info, base, method) if inspect.isclass(target) else base(target, info)

    return make if pass_func is None else make(pass_func)


def _pass_class(target: Any, info: PassInfo, base: Any, method: str) -> Any:
    """A class of passes whose objects hold one of `target`, and have its attributes."""
    if not callable(getattr(target, method, None)):
        raise TransformError(f"the class {target.__name__} needs a method {method}")

    class Made(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._inner = target(*args, **kwargs)
            super().__init__(getattr(self._inner, method), info)

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "_inner":  # not there yet: the constructor of `target` failed
                raise AttributeError(attribute)
            return getattr(self._inner, attribute)

    Made.__name__, Made.__qualname__ = target.__name__, target.__qualname__
    Made.__module__, Made.__doc__ = target.__module__, target.__doc__
    return Made


# --------------------------------------------------------------------------- ready to be used


def PrintIR(header: str = "") -> Pass:
    """A pass that prints the module and changes nothing."""

    def show(mod: IRModule, _: PassContext) -> IRModule:
        print(f"# PrintIR({header})\n{mod.script()}")
        return mod

    return ModulePass(show, PassInfo(0, "PrintIR"))
