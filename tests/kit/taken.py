"""How a table of numbers was made: the machine, the day and the command."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def taken(command: str) -> str:
    """Return the sentence that stands above a table made now, on this machine, by `command`."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = models[0].partition(":")[2].strip() if models else platform.machine()
    cores = len(os.sched_getaffinity(0))
    return (
        f"Machine: {cores} core{'s' if cores > 1 else ''} of {processor}, {platform.system()}, "
        f"Python {platform.python_version()}.\nTaken {datetime.now(UTC):%Y-%m-%d}. Command: `{command}`."
    )
