"""Start processes: the fork server of build workers, and processes that do not import the main module."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from types import ModuleType

from rpc_server.machine.children import search_path

_PRELOAD = ["tuner.build.worker", "tuner.build.preload"]  # in this order: the second freezes what there is
_one_at_a_time = threading.Lock()


def start_fork_server() -> None:
    """Start multiprocessing's fork server; return while it still imports the compiler.

    It is single-threaded, has nothing of this process's state, and ends with this process and the workers forked
    from it. A fork server that the program started for itself is used as it is; each worker then imports for itself.
    Call it as soon as it is known that there will be builds.
    """
    settings = {
        "PYTHONPATH": search_path(),
        "PYTHONSAFEPATH": "1",  # a folder here may have the name of one of our packages
        "OPENBLAS_NUM_THREADS": "1",  # numpy would start threads
    }
    resource_tracker.ensure_running()  # here, because it unblocks SIGINT when it has started
    with _one_at_a_time, _environment(settings), sigint_blocked():
        forkserver.set_forkserver_preload(_PRELOAD)
        forkserver.ensure_running()


@contextmanager
def main_not_imported() -> Iterator[None]:
    """Keep processes that multiprocessing starts meanwhile from importing this one's main module.

    Otherwise a script without `if __name__ == "__main__":` would run again in each of them, from its top. It is for
    processes that need nothing of that module.
    """
    with _one_at_a_time:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextmanager
def sigint_blocked() -> Iterator[None]:
    """Block SIGINT for children started meanwhile.
    Ctrl-C goes to the terminal's whole process group, and a starting process would answer it with a traceback. This
    process gets the signal afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """`settings` as environment variables for what is started meanwhile."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
