"""Models run from C: examples/run_model.c, compiled against a model's library and header."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from compiler.runtime.vm.vm_executable import VMExecutable

SOURCE = Path(__file__).parents[3] / "examples" / "run_model.c"


def run_in_c(executable: VMExecutable, x: Any, folder: Path) -> tuple[Any, str]:
    """What main gives for x (float32, as many columns as the result has), and what the process had mapped."""
    rows, columns = x.shape
    library, program = folder / "model.so", folder / "run_model"
    executable.export_library(str(library))
    executable.save(str(folder / "model.h"))
    command = ["cc", "-O1", "-Wall", "-Werror", f"-DCOLUMNS={columns}", f"-I{folder}", "-o", program, SOURCE, library]
    subprocess.run([*command, "-lm", "-lpthread"], check=True)
    with subprocess.Popen([program, str(rows)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        maps = _maps(running.pid)
        out, _ = running.communicate(x.tobytes(), timeout=60)
    return np.frombuffer(out, "float32").reshape(x.shape), maps


def _maps(pid: int) -> str:
    """The process's map once the model's library is there; it waits for its input meanwhile."""
    for _ in range(500):
        text = Path(f"/proc/{pid}/maps").read_text()
        if "model.so" in text:
            return text
        time.sleep(0.01)
    raise AssertionError("the library was not mapped")
