"""An analytic draft of how fast candidates are: a roofline over what their features say.

Higher is better.

The time of an operation is the larger of two times, plus copies and loop overhead, over how evenly the threads are
loaded. One is the arithmetic's, slowed by too few accumulators, operand loads, spills, and lanes and tails that are
not filled. The other is what each cache level takes to deliver its bytes. The numbers are those of a common desktop
core, and of a server's core with vectors of 64 bytes. They were chosen among plausible ones by how well they order
measured spaces (benchmarks/data); only the order counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.dtype import parse_dtype
from tuner.model.machine import MachineModel
from tuner.model.nest import Nest
from tuner.model.types import Floats

_SPILL = 3.0
_GATHER = 2.0
_LINE = 64  # bytes of a line of the cache
_CYCLES_A_PIECE = 50.0  # that the first line of a piece of memory is late, with others on their way
_HANDED_BYTES_A_CYCLE = 4.0  # from the cache of another core, which wrote them
_RELOADED_BYTES_A_CYCLE = 30.0  # into the second level, where arithmetic goes on meanwhile


@dataclass(frozen=True)
class _Core:
    """A core's work in a cycle, and its stalls.

    `latency`: accumulators in flight that keep two multiply-add units busy, also when operands are late. `loads`: of
    two, less those that meet in one bank, cross a line or wait for a register. `into_l1`, `into_l2`, `from_memory`:
    bytes that arrive. `copied`: bytes copied in vectors; `copied_singly`: bytes that are transposed on the way,
    because they are shared across vectors. `turned`: a matrix whose rows become columns of vectors. `added`: partial
    sums added up one by one. `step`: cycles of a loop's counters and jumps, beside the arithmetic. `straight`:
    straight-line vector operations, as a logarithm, before some registers are spilled; each doubling of them takes
    `longer`. `runs`: pieces of memory that a tile can go through, as a logarithm, before pages and lines run short.
    Each doubling takes `apart`, and each by which they are too many for their sets of the second level `crowded`.
    `ragged`: what loads of rows take that begin inside of lines. `overlap`: the power at which times are added up;
    the higher, the more the largest dominates. `edges`: whether what a panel lacks beside whole tiles is told from
    what a tile lacks.
    """

    latency: float = 12.0
    loads: float = 1.25
    into_l1: float = 48.0
    into_l2: float = 20.0
    from_memory: float = 5.0
    copied: float = 16.0
    copied_singly: float = 7.0
    turned: float = 10.0
    added: float = 1.0
    step: float = 0.25
    straight: float = 3.5
    longer: float = 0.1
    runs: float = 7.0
    apart: float = 0.3
    crowded: float = 0.0
    ragged: float = 1.0
    edges: bool = False
    overlap: float = math.inf


_DESKTOP = _Core()
_SERVER = _Core(
    latency=20.0, loads=0.8, into_l1=58.0, into_l2=24.0, from_memory=4.0, copied=12.0, copied_singly=3.5, turned=6.0,
    step=0.4, longer=0.0, runs=10.0, crowded=5.0, ragged=1.4, overlap=2.0,
    edges=True,
)  # fmt: skip
"""With vectors of a whole line and 32 registers: unrolled code has room, columns come from the second level in each
step, which is never quite hidden, and so larger tiles pay. Rows in many pages cost little, until they meet in the same
sets of the second level."""


def draft(of: Mapping[str, Floats], nest: Nest, machine: MachineModel) -> Floats:
    """Return the negative logarithm (base 2) of the estimated cycles an operation takes.
    It is made of the other features by name."""
    core = _SERVER if machine.lanes * parse_dtype(nest.dtype).bytes >= _LINE else _DESKTOP
    used = np.minimum(machine.lanes, np.exp2(of["lanes"]))
    latency = np.minimum(1.0, np.exp2(of["tile_vectors"]) / core.latency)
    arithmetic = 1.0 / (4.0 * used * latency * of["lane_fill"])
    loads = np.exp2(of["loads_per_op"]) / (core.loads * used * nest.ops)
    loads = np.where(of["ragged"] > 0, core.ragged, 1.0) * loads
    spills = np.where(of["spills"] > 0, _SPILL, 1.0)
    gathers = np.where(of["strided"] > 0, _GATHER, 1.0)
    straight = 1.0 + core.longer * np.maximum(0.0, of["unrolled"] - core.straight)
    apart = 1.0 + core.apart * np.maximum(0.0, of["runs"] - core.runs) + core.crowded * of["crowded"]
    useful = of["tile_fill" if core.edges else "fill"]
    compute = np.maximum(arithmetic, loads) * spills * gathers * straight * apart / useful
    memory = [
        np.exp2(of["l1_traffic"]) / core.into_l1,
        np.exp2(of["l2_traffic"]) / core.into_l2,
        np.exp2(of["l3_traffic"]) / core.from_memory,
    ]
    singly = np.exp2(of["copied_singly"]) - 1.0
    straight_on = np.exp2(of["copied"]) - 1.0 - singly - of["turned"]
    copies = straight_on / core.copied + singly / core.copied_singly + of["turned"] / core.turned
    sums = of["added"] / core.added
    overhead = core.step * np.exp2(of["loop_steps"]) / nest.ops
    cycles = _largest([compute, *memory], core.overlap) + copies + sums + overhead
    score: Floats = -np.log2(cycles / (of["balance"] * machine.threads))
    return score


@dataclass(frozen=True)
class Waits:
    """Causes for an operation to wait.
    Its `pieces` of memory are written in no cache, other threads hand bytes over, or bytes leave the second-level
    cache before they are used again."""

    pieces: Floats
    handed_bytes: Floats
    pushed_out_bytes: Floats

    @property
    def cycles(self) -> Floats:
        handed = self.handed_bytes / _HANDED_BYTES_A_CYCLE
        return _CYCLES_A_PIECE * self.pieces + handed + self.pushed_out_bytes / _RELOADED_BYTES_A_CYCLE


def late(draft: Floats, waits: Waits, at_once: Floats) -> Floats:
    """Return what `waits` add to a `draft`. All threads together do `at_once` operations."""
    cycles = np.exp2(-draft) * at_once
    score: Floats = -np.log2(1.0 + waits.cycles / cycles)
    return score


def _largest(times: Sequence[Floats], overlap: float) -> Floats:
    """The largest of concurrent times, or somewhat more than it."""
    cycles: Floats = np.maximum.reduce(times)
    if overlap < math.inf:
        cycles = np.power(np.sum(np.power(times, overlap), axis=0), 1.0 / overlap)
    return cycles
