"""An analytic draft of how fast candidates are: a roofline over what their features say. Higher is better.

The time an operation takes is the largest of what the arithmetic takes (held up by too few accumulators, operand loads,
spills, lanes and tails that are not filled) and what each cache level takes to deliver its bytes, plus copies and loop
overhead, over how evenly the threads are loaded. The numbers are those of a common desktop core, chosen
among plausible ones by how well they order the recorded spaces of benchmarks/data; only the order counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.model.machine import Machine
from tuner.model.nest import Nest
from tuner.model.types import Floats

_LATENCY = 12.0  # accumulators in flight that keep two multiply-add units busy, also where operands are late
_LOADS_A_CYCLE = 1.25  # of two, less what meets in one bank, crosses a line or waits for a register
_BYTES_A_CYCLE = {"l1_traffic": 48.0, "l2_traffic": 20.0, "l3_traffic": 5.0}  # into L1, into L2, from memory
_COPIED_A_CYCLE = 16.0  # bytes, in vectors
_COPIED_SINGLY_A_CYCLE = 7.0  # bytes, element by element: what is shared across vectors is transposed on the way
_LOOP_STEP = 0.25  # cycles: counters and jumps go on beside the arithmetic
_SPILL = 3.0
_GATHER = 2.0
_STRAIGHT = 3.5  # vector operations written out, as a logarithm; of more, some registers are stored and loaded between
_LONGER = 0.1  # the time that each doubling of them costs
_RUNS = 7.0  # pieces of memory that a tile can go through, as a logarithm, before their pages and lines are in the way
_APART = 0.3  # the time that each doubling of them costs


def draft(of: Mapping[str, Floats], nest: Nest, machine: Machine) -> Floats:
    """The negative logarithm (base 2) of the estimated cycles an operation takes, from the other features by name."""
    used = np.minimum(machine.lanes, np.exp2(of["lanes"]))
    latency = np.minimum(1.0, np.exp2(of["tile_vectors"]) / _LATENCY)
    arithmetic = 1.0 / (4.0 * used * latency * of["lane_fill"])
    loads = np.exp2(of["loads_per_op"]) / (_LOADS_A_CYCLE * used * nest.ops)
    spills = np.where(of["spills"] > 0, _SPILL, 1.0)
    gathers = np.where(of["strided"] > 0, _GATHER, 1.0)
    straight = 1.0 + _LONGER * np.maximum(0.0, of["unrolled"] - _STRAIGHT)
    apart = 1.0 + _APART * np.maximum(0.0, of["runs"] - _RUNS)
    compute = np.maximum(arithmetic, loads) * spills * gathers * straight * apart / of["fill"]
    memory = [np.exp2(of[name]) / rate for name, rate in _BYTES_A_CYCLE.items()]
    singly = np.exp2(of["copied_singly"]) - 1.0
    copies = (np.exp2(of["copied"]) - 1.0 - singly) / _COPIED_A_CYCLE + singly / _COPIED_SINGLY_A_CYCLE
    overhead = _LOOP_STEP * np.exp2(of["loop_steps"]) / nest.ops
    cycles = np.maximum.reduce([compute, *memory]) + copies + overhead
    score: Floats = -np.log2(cycles / (of["balance"] * machine.threads))
    return score
