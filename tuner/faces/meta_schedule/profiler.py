"""How long the parts of a run took, by their names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

_current: ContextVar[Profiler | None] = ContextVar("meta_schedule_profiler", default=None)


class Profiler:
    """Adds up the seconds of what `Profiler.timeit` names while its `with` block runs."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._began = 0.0
        self._total = 0.0
        self._token: Token[Profiler | None] | None = None

    def __enter__(self) -> Profiler:
        self._token = _current.set(self)
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_error: object) -> None:
        self._total += time.perf_counter() - self._began
        if self._token is not None:
            _current.reset(self._token)

    def get(self) -> dict[str, float]:
        """Return the seconds by name, those of the whole block as "Total"."""
        return {**self._seconds, "Total": self._total}

    def table(self) -> str:
        """Return a line a name, the longest first, and the whole last."""
        rows = sorted(self._seconds.items(), key=lambda row: -row[1])
        rows.append(("Total", self._total))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {seconds:.3f} s" for name, seconds in rows)

    @staticmethod
    def current() -> Profiler | None:
        """Return the profiler whose `with` block this is; None outside of one."""
        return _current.get()

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """Add what the block takes to `name` of the profiler at hand."""
        began = time.perf_counter()
        try:
            yield
        finally:
            profiler = _current.get()
            if profiler is not None:
                taken = time.perf_counter() - began
                profiler._seconds[name] = profiler._seconds.get(name, 0.0) + taken
