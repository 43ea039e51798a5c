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

_LATENCY = 8.0  # accumulators in flight that keep two multiply-add units busy
_LOADS_A_CYCLE = 1.7  # of two, less what meets in one bank or crosses a line
_BYTES_A_CYCLE = {"l1_traffic": 64.0, "l2_traffic": 32.0, "l3_traffic": 5.0}  # into L1, into L2, from memory
_COPIED_A_CYCLE = 16.0  # bytes
_LOOP_STEP = 0.25  # cycles: counters and jumps go on beside the arithmetic
_SPILL = 1.6
_GATHER = 2.0
_STRAIGHT = 4.0  # vector operations written out, as a logarithm; of more, some registers are stored and loaded between
_LONGER = 0.2  # the time that each doubling of them costs


def draft(of: Mapping[str, Floats], nest: Nest, machine: Machine) -> Floats:
    """The negative logarithm (base 2) of the estimated cycles an operation takes, from the other features by name."""
    used = np.minimum(machine.lanes, np.exp2(of["lanes"]))
    latency = np.minimum(1.0, np.exp2(of["tile_vectors"]) / _LATENCY)
    arithmetic = 1.0 / (4.0 * used * latency * of["lane_fill"])
    loads = np.exp2(of["loads_per_op"]) / (_LOADS_A_CYCLE * used * nest.ops)
    spills = np.where(of["spills"] > 0, _SPILL, 1.0)
    gathers = np.where(of["strided"] > 0, _GATHER, 1.0)
    straight = 1.0 + _LONGER * np.maximum(0.0, of["unrolled"] - _STRAIGHT)
    compute = np.maximum(arithmetic, loads) * spills * gathers * straight / of["fill"]
    memory = [np.exp2(of[name]) / rate for name, rate in _BYTES_A_CYCLE.items()]
    copies = (np.exp2(of["copied"]) - 1.0) / _COPIED_A_CYCLE
    overhead = _LOOP_STEP * np.exp2(of["loop_steps"]) / nest.ops
    cycles = np.maximum.reduce([compute, *memory]) + copies + overhead
    score: Floats = -np.log2(cycles / (of["balance"] * machine.threads))
    return score
