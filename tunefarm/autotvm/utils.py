"""Small helpers that templates use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from compiler.errors import IRError
from compiler.tir import ops
from tuner.faces.autotvm.tuner import SI_PREFIXES
from tuner.faces.autotvm.tuner import check_si_prefix as format_divisor

__all__ = [
    "EmptyContext", "format_si_prefix", "get_const_int", "get_const_tuple", "get_func_name", "get_rank", "pool_map",
]  # fmt: skip


class EmptyContext:
    """A `with` block that does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def get_const_int(exp: Any) -> int:
    """The integer that an expression stands for.
    Raises IRError (a ValueError) for one that is not constant."""
    found = exp if isinstance(exp, int) else ops.as_int(ops.as_expr(exp))
    if found is None:
        raise IRError(f"{exp!r} is no constant integer")
    return int(found)


def get_const_tuple(in_tuple: Iterable[Any]) -> tuple[Any, ...]:
    """The extents of a shape as integers; those that are not constant stay as they are."""
    return tuple(elem if (found := ops.as_int(ops.as_expr(elem))) is None else int(found) for elem in in_tuple)


def get_func_name(func: Any) -> str:
    """The name of a function, or of an object's class."""
    return str(getattr(func, "func_name", None) or getattr(func, "__qualname__", type(func).__name__))


def get_rank(values: Iterable[Any]) -> list[int]:
    """The place of each value in descending order, from 1."""
    listed = list(values)
    order = sorted(range(len(listed)), key=lambda index: -listed[index])
    ranks = [0] * len(listed)
    for rank, index in enumerate(order, 1):
        ranks[index] = rank
    return ranks


def pool_map(
    func: Callable[[Any], Any], args: Iterable[Any], batch_size: int, verbose: bool = False, pool: Any = None
) -> list[Any]:
    """The results of `func` for each argument, computed by threads."""
    with ThreadPoolExecutor() as threads:
        return list(threads.map(func, args))


def format_si_prefix(x: float, si_prefix: str) -> float:
    """`x` in units of a prefix: `format_si_prefix(2e9, "G")` is 2. Raises ConfigError for an unknown one."""
    return x / format_divisor(si_prefix)


assert "G" in SI_PREFIXES
