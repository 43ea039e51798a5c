"""The longest kernels of a built model, and what limits each: the machine's arithmetic, its memory, or the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from compiler.runtime.measure.peaks import Peaks

_RUNS = 7
_LONGEST = 10
_NEAR = 0.6
"""The part of the roofline from which on the machine limits a kernel, not its code."""


@dataclass
class _Kernel:
    """Microseconds, operations and bytes of a run's calls of one kernel; the times are the least of several runs."""

    micros: list[float] = field(default_factory=list)
    gflops: float = 0.0
    gbytes: float = 0.0

    @property
    def spent(self) -> float:
        return sum(self.micros)

    def least(self, peaks: Peaks) -> tuple[float, float]:
        """Microseconds that the machine needs at its peaks: for arithmetic, and for memory."""
        return self.gflops * 1e15 / peaks.flops, self.gbytes * 1e15 / peaks.bytes


def profile_section(title: str, model: Path, inputs: Path) -> str:
    """A section of Markdown about a model on one thread."""
    import tunefarm as tvm
    from compiler.runtime.measure.peaks import measured_peaks
    from tunefarm import relax

    tvm.runtime.set_num_threads(1)
    peaks = measured_peaks(1)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(model)), tvm.cpu())
    given = [tvm.nd.array(array) for array in np.load(inputs).values()]
    kernels: dict[str, _Kernel] = {}
    for _ in range(_RUNS):
        _add(kernels, [dict(call) for call in machine.profile("main", *given).calls])
    whole = sum(kernel.spent for kernel in kernels.values())
    least = sum(min(kernel.spent, max(kernel.least(peaks))) for kernel in kernels.values())
    lines = [
        f"## {title}, one thread",
        "",
        f"All kernels: {whole / 1e3:.2f} ms. Peaks: {peaks.flops / 1e9:.0f} GFLOP/s, {peaks.bytes / 1e9:.0f} GB/s.",
        f"Kernels that do as much at these peaks need {least / 1e3:.2f} ms ({least / whole:.0%}).",
        "",
        "| kernel | calls | ms | share | GFLOP/s | GB/s | of the roofline | limited by |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, kernel in sorted(kernels.items(), key=lambda item: -item[1].spent)[:_LONGEST]:
        micros, (arithmetic, memory) = kernel.spent, kernel.least(peaks)
        reached = max(arithmetic, memory) / micros
        machine_limit = "arithmetic" if arithmetic >= memory else "memory"
        limit = machine_limit if reached >= _NEAR else f"its code; at best {machine_limit}"
        lines.append(
            f"| `{name}` | {len(kernel.micros)} | {micros / 1e3:.2f} | {micros / whole:.0%} "
            f"| {1e6 * kernel.gflops / micros:.0f} | {1e6 * kernel.gbytes / micros:.1f} | {reached:.0%} | {limit} |"
        )
    return "\n".join(lines) + "\n\n"


def _add(kernels: dict[str, _Kernel], calls: list[dict[str, object]]) -> None:
    """Take in a run: each call's least time counts."""
    seen: dict[str, int] = {}
    for call in calls:
        name = str(call["Name"])
        at = seen[name] = seen.get(name, -1) + 1
        kernel = kernels.setdefault(name, _Kernel())
        micros = float(getattr(call["Duration (us)"], "microseconds", 0.0))
        if at == len(kernel.micros):
            kernel.micros.append(micros)
            kernel.gflops += micros * 1e-6 * float(getattr(call.get("GFLOP/s"), "ratio", 0.0))
            kernel.gbytes += micros * 1e-6 * float(getattr(call.get("GB/s"), "ratio", 0.0))
        else:
            kernel.micros[at] = min(kernel.micros[at], micros)
