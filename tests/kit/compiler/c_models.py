"""Models run from C: the examples' programs, compiled against a model's library."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.extents import parse_extent
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.vm_executable import VMExecutable

SOURCE = Path(__file__).parents[3] / "examples" / "run_model.c"
ANY_SOURCE = SOURCE.with_name("run_any_model.c")


def run_in_c(executable: VMExecutable, x: Any, folder: Path) -> tuple[Any, str]:
    """Return main's result for x (float32, as many columns as the result has), and what the process had mapped."""
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


def run_any_in_c(vm: VirtualMachine, arrays: Sequence[Any], outputs: Sequence[Any], folder: Path) -> tuple[bytes, str]:
    """The bytes of what main gives for arrays, run by examples/run_any_model.c, and what the process had mapped.

    `outputs` are arrays of the results' shapes. Fails where main is no machine code, or a result is an argument itself.
    """
    program = vm.module.program
    function = program.function("main")
    assert function is not None
    assert function.native is not None
    assert function.native.results == tuple(range(len(outputs))), "a result is an argument itself"
    entry = program.kernels["cpu"].entry(function.native.entry)
    known: dict[str, int] = {}
    for spec, array in zip(entry.args, arrays):
        known |= {extent: size for extent, size in zip(spec.shape or (), array.shape) if isinstance(extent, str)}
    numbers = [str(parse_extent(arg.value).value(known)) for arg in entry.implicit]
    made = {result.index - len(arrays): f"made:{result.ndim}" for result in entry.made}
    results = [f"{made[i]}:{a.itemsize}" if i in made else f"out:{a.nbytes}" for i, a in enumerate(outputs)]
    words = [*(f"in:{a.nbytes}" for a in arrays), *results, *numbers]
    library, runner = folder / "model.so", folder / "run_any_model"
    vm.module.export_library(str(library))
    command = ["cc", "-O1", "-Wall", "-Werror", "-o", runner, ANY_SOURCE, library, "-lm", "-lpthread"]
    subprocess.run(command, check=True)
    with subprocess.Popen([runner, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        maps = _maps(running.pid)
        out, _ = running.communicate(b"".join(a.tobytes() for a in arrays), timeout=300)
    return out, maps
