"""An analytic draft of how fast candidates are: a roofline over what their features say. Higher is better.

The time an operation takes is the largest of what the arithmetic takes (held up by too few accumulators, operand loads,
spills, lanes and tails that are not filled) and what each cache level takes to deliver its bytes, plus copies and loop
overhead, over how evenly the threads are loaded. The numbers are those of a common desktop core; only the order counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.model.machine import Machine
from tuner.model.nest import Nest
from tuner.model.types import Floats

_LATENCY = 10.0  # accumulators in flight that keep two multiply-add units busy
_BYTES_A_CYCLE = {"l1_traffic": 48.0, "l2_traffic": 16.0, "l3_traffic": 5.0}  # into L1, into L2, from memory
_SPILL = 1.6
_GATHER = 3.0


def draft(of: Mapping[str, Floats], nest: Nest, machine: Machine) -> Floats:
    """The negative logarithm (base 2) of the estimated cycles an operation takes, from the other features by name."""
    used = np.minimum(machine.lanes, np.exp2(of["lanes"]))
    latency = np.minimum(1.0, np.exp2(of["tile_vectors"]) / _LATENCY)
    arithmetic = 1.0 / (4.0 * used * latency * of["lane_fill"])
    loads = np.exp2(of["loads_per_op"]) / (2.0 * used * nest.ops)
    spills = np.where(of["spills"] > 0, _SPILL, 1.0)
    gathers = np.where(of["strided"] > 0, _GATHER, 1.0)
    compute = np.maximum(arithmetic, loads) * spills * gathers / of["fill"]
    memory = [np.exp2(of[name]) / rate for name, rate in _BYTES_A_CYCLE.items()]
    copies = (np.exp2(of["copied"]) - 1.0) / 8.0
    overhead = 2.0 * np.exp2(of["loop_steps"]) / nest.ops
    cycles = np.maximum.reduce([compute, *memory]) + copies + overhead
    score: Floats = -np.log2(cycles / (of["balance"] * machine.threads))
    return score
