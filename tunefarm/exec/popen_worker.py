"""`python -m tunefarm.exec.popen_worker`: the name under which TVM starts the processes of its pools.

The pools here start their own, see `tunefarm.contrib.popen_pool`: this says so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_DESCRIPTORS = 2


def answer(argv: Sequence[str]) -> int:
    """Print how it is called, or what to use instead; return the exit status."""
    if len(argv) != _DESCRIPTORS:
        print("Usage: <read_fd> <write_fd>")
        return 0
    print(
        "popen_worker serves no pipe here: tunefarm.contrib.popen_pool.PopenWorker starts a process and calls"
        " functions in it",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(answer(sys.argv[1:]))
