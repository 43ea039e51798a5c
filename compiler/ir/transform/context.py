"""The pass context: what passes run with, which of them run, and who watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from compiler.ir.module import IRModule
from compiler.ir.transform.config import TransformError, checked, list_options

if TYPE_CHECKING:
    from compiler.ir.transform.passes import PassInfo

DEFAULT_OPT_LEVEL = 2


class Instrument(Protocol):
    """The instrument of a context: see `compiler.ir.transform.instrument.PassInstrument`."""

    def enter_pass_ctx(self) -> None: ...
    def exit_pass_ctx(self) -> None: ...
    def should_run(self, mod: IRModule, info: PassInfo) -> bool: ...
    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None: ...
    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None: ...


_HOOKS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")
_stack: ContextVar[tuple[PassContext, ...]] = ContextVar("tunefarm_pass_contexts", default=())


class PassContext:
    """`with PassContext(opt_level=3, config={"tir.disable_vectorize": True}):` around lower or build.

    A pass runs when its level is at most `opt_level` or `required_pass` names it, unless `disabled_pass` does.
    `instruments` are told of every pass. The innermost context counts, whole: it takes nothing over from those
    around it. Raises TransformError for an unknown option (naming the known ones) or a value it cannot have.
    """

    def __init__(
        self, opt_level: int = DEFAULT_OPT_LEVEL, required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None, instruments: Sequence[Instrument] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if isinstance(opt_level, bool) or not isinstance(opt_level, int) or opt_level < 0:
            raise TransformError(f"opt_level is a non-negative integer, not {opt_level!r}")
        self.opt_level = opt_level
        self.required_pass = _names("required_pass", required_pass)
        self.disabled_pass = _names("disabled_pass", disabled_pass)
        self.instruments = _instruments(instruments)
        self.config: Mapping[str, Any] = MappingProxyType(checked(config or {}))

    @staticmethod
    def current() -> PassContext:
        """The innermost `with PassContext(...)` around the caller, else one with the defaults."""
        return PassContext.active() or PassContext()

    @staticmethod
    def active() -> PassContext | None:
        """The innermost context around the caller, None when there is none."""
        stack = _stack.get()
        return stack[-1] if stack else None

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """Every option of `config`: its type and what it does."""
        return {name: {"type": option.type_name, "help": option.help} for name, option in list_options().items()}

    def option(self, name: str, default: Any = None) -> Any:
        """The value of one option, or `default` when it was not given."""
        return self.config.get(name, default)

    def enabled(self, info: PassInfo) -> bool:
        """Whether a sequence runs this pass here."""
        if info.name in self.disabled_pass:
            return False
        return info.opt_level <= self.opt_level or info.name in self.required_pass

    # -- instruments -----------------------------------------------------------------------------
    def override_instruments(self, instruments: Sequence[Instrument] | None) -> None:
        """Replace the instruments: the present ones leave, and the new ones enter."""
        self._leave()
        self.instruments = _instruments(instruments)
        self._enter()

    def before_pass(self, mod: IRModule, info: PassInfo) -> bool:
        """Ask and tell the instruments. False: one of them does not want the pass to run."""
        wanted = [instrument.should_run(mod, info) for instrument in self.instruments]
        if not all(wanted) and info.name not in self.required_pass:
            return False
        for instrument in self.instruments:
            instrument.run_before_pass(mod, info)
        return True

    def after_pass(self, mod: IRModule, info: PassInfo) -> None:
        for instrument in self.instruments:
            instrument.run_after_pass(mod, info)

    def _enter(self) -> None:
        """Tell every instrument. One that fails makes those before it leave, and nobody watches."""
        entered: list[Instrument] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            self.instruments = ()
            for instrument in entered:
                instrument.exit_pass_ctx()
            raise

    def _leave(self) -> None:
        """Tell every instrument, also when one fails; the first failure is raised then."""
        failure: BaseException | None = None
        for instrument in self.instruments:
            try:
                instrument.exit_pass_ctx()
            except BaseException as error:
                failure = failure or error
        if failure is not None:
            self.instruments = ()
            raise failure

    def __enter__(self) -> PassContext:
        self._enter()
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _stack.set(_stack.get()[:-1])
        self._leave()

    def __repr__(self) -> str:
        parts = [f"opt_level={self.opt_level}"]
        for name in ("required_pass", "disabled_pass"):
            if names := getattr(self, name):
                parts.append(f"{name}={list(names)}")
        if self.instruments:
            parts.append(f"instruments={list(self.instruments)}")
        if self.config:
            parts.append(f"config={dict(self.config)}")
        return f"PassContext({', '.join(parts)})"


def _names(what: str, given: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise TransformError(f"{what} is a list of pass names, not {given!r}")
    return tuple(given)


def _instruments(given: Sequence[Instrument] | None) -> tuple[Instrument, ...]:
    found = tuple(given or ())
    for instrument in found:
        missing = [hook for hook in _HOOKS if not callable(getattr(instrument, hook, None))]
        if missing:
            raise TransformError(
                f"{instrument!r} is no pass instrument: it has no {missing[0]}",
                hint="derive the class from PassInstrument, or decorate it with @pass_instrument",
            )
    return found
