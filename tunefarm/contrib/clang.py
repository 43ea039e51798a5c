"""LLVM's text of a C program, made by clang."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tunefarm.contrib.utils import is_source_path

__all__ = ["create_llvm", "find_clang"]

_TIMEOUT_S = 120


def find_clang(required: bool = True) -> list[str]:
    """The paths of clang on this machine, newest first.
    Raises RuntimeError where it is `required` and missing."""
    names = [f"clang-{version}" for version in range(30, 8, -1)] + ["clang"]
    found = [path for path in map(shutil.which, names) if path is not None]
    if not found and required:
        raise RuntimeError("there is no clang on this machine; install one, or write the function in TVMScript")
    return found


def create_llvm(
    inputs: str | Sequence[str], output: str | None = None, options: Sequence[str] | None = None, cc: str | None = None
) -> str:
    """Return LLVM's text of C source files or source texts; also written to `output`. Raises RuntimeError."""
    compiler = cc or find_clang()[0]
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for at, given in enumerate([inputs] if isinstance(inputs, str) else inputs):
            if is_source_path(given):
                files.append(given)
            else:
                files.append(str(Path(folder, f"input{at}.cc")))
                Path(files[-1]).write_text(given)
        made = Path(output or Path(folder, "output.ll"))
        command = [compiler, "-S", "-emit-llvm", *(options or ()), "-o", str(made), *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"clang failed: {done.stderr}")
        return made.read_text()
