"""Results of functions kept in a file, for programs that compute the same test data again and again."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

__all__ = ["memoize"]

P = ParamSpec("P")
R = TypeVar("R")
_FOLDER = ".pkl_memoize_py3"


def memoize(key: str, save_at_exit: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep what a function returned for its arguments, by `key`, in this process.

    With `save_at_exit` results are read from and written to a file in the working folder. Load only files that you
    made: reading one runs what it says.
    """
    path = Path.cwd() / _FOLDER / f"{key.replace('/', '_')}.pkl"

    def decorate(func: Callable[P, R]) -> Callable[P, R]:
        known: dict[Any, R] = pickle.loads(path.read_bytes()) if save_at_exit and path.exists() else {}

        @functools.wraps(func)
        def kept(*args: P.args, **kwargs: P.kwargs) -> R:
            at = (args, tuple(sorted(kwargs.items())))
            if at not in known:
                known[at] = func(*args, **kwargs)
                if save_at_exit:
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(pickle.dumps(known))
            return known[at]

        return kept

    return decorate
