"""Work done in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[T], object], items: Iterable[T], patience_s: float | None = None) -> None:
    """Call `work` for each of `items`, each in a thread of its own; raise the first error of any."""
    errors: list[BaseException] = []

    def call(item: T) -> None:
        try:
            work(item)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(item,)) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience_s)
    if errors:
        raise errors[0]
