"""Starting processes from scripts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_one_at_a_time = threading.Lock()


@contextmanager
def main_not_imported() -> Iterator[None]:
    """Processes that multiprocessing spawns meanwhile do not import this one's main module.

    Otherwise a script without `if __name__ == "__main__":` would run again in each of them, from its top. For
    processes that need nothing from there.
    """
    with _one_at_a_time:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
