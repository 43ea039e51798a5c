"""Small helpers around workloads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tunefarm.autotvm.utils import get_const_int, get_const_tuple, get_func_name
from tuner.faces.auto_scheduler.workload_registry import args_distance
from tuner.faces.common.arguments import tuples

__all__ = [
    "array_mean", "calc_workload_dis_factor", "decode_workload_key", "get_const_int", "get_const_tuple",
    "get_func_name", "list_to_tuple", "to_str_round",
]  # fmt: skip


def list_to_tuple(x: Sequence[Any]) -> tuple[Any, ...]:
    """A list as a tuple, and so its lists."""
    return tuple(list_to_tuple(item) if isinstance(item, list) else item for item in x)


def array_mean(arr: Sequence[Any]) -> float:
    """The mean of numbers, which may be constants of the IR."""
    return sum(float(value) for value in arr) / len(arr)


def to_str_round(x: Any, decimal: int = 6) -> str:
    """A number, or the numbers of a list or a mapping, with at most `decimal` digits behind the point."""
    if isinstance(x, str):
        return x
    if isinstance(x, dict):
        return "{" + ", ".join(f"{key}: {to_str_round(value, decimal)}" for key, value in x.items()) + "}"
    if isinstance(x, list | tuple):
        return "[" + ", ".join(to_str_round(value, decimal) for value in x) + "]"
    return f"{x:.{decimal}f}" if isinstance(x, float) else str(x)


def decode_workload_key(workload_key: str) -> tuple[str | None, list[Any] | None]:
    """The function's name, or the digest, of a key and its arguments; None for a text that is no key."""
    try:
        name, *args = json.loads(workload_key)
    except (ValueError, TypeError):
        return None, None
    return str(name), args


def calc_workload_dis_factor(
    target_workload_pair: tuple[str | None, Sequence[Any]], workload_pair: tuple[str | None, Sequence[Any]]
) -> float:
    """Tell how far apart two workloads are: 1 for equal ones, infinity for strangers.
    Each is a name and arguments."""
    (name, args), (other, other_args) = target_workload_pair, workload_pair
    return args_distance(tuples(args), tuples(other_args)) if name == other else float("inf")
