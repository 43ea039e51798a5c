"""Time a tuned model against the same model untuned and ONNX Runtime, in turns; prints one JSON line.

For the demo.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from compiler.frontend.model_files import read_model_file
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_module
from compiler.runtime.vm.machine import VirtualMachine
from tunefarm import relax
from tunefarm.cli.models.inputs import AnyArray, make_inputs
from tuner.devices.supplies import local_target

_ROUNDS = 15
_TURN_S = 0.05
_REST_S = 0.2
"""Rest before each turn: idle threads of ONNX Runtime spin after a call, which takes cores from whatever runs next. All
sides rest alike, then warm up until their threads are awake."""
_ENTRY = "main"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="an ONNX file")
    parser.add_argument("artifact", type=Path, help="what `tunefarm build --out` made of it")
    parser.add_argument("--core", type=int, help="pin this process to a core")
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    print(json.dumps(compare(args.model, args.artifact)))


def compare(model: str, artifact: Path) -> dict[str, float]:
    """Median seconds of a run over interleaved rounds, of "tuned" and "untuned".
    "onnxruntime" is added where it is installed."""
    source = read_model_file(model)
    tuned = VirtualMachine(load_module(str(artifact)), cpu(0))
    untuned = VirtualMachine(relax.build(source.module, local_target(), exec_mode="compiled"), cpu(0))
    arrays = make_inputs(tuned.interface(_ENTRY), source.inputs, {}, {}, 0)
    sides = {"tuned": _ours(tuned, arrays), "untuned": _ours(untuned, arrays)}
    if find_spec("onnxruntime") is not None:
        sides["onnxruntime"] = _onnxruntime(model, arrays)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(_ROUNDS):
        for name, run in sides.items():
            time.sleep(_REST_S)
            times[name].append(_turn(run))
    return {name: statistics.median(found) for name, found in times.items()}


def _ours(machine: VirtualMachine, arrays: Mapping[str, AnyArray]) -> Callable[[], object]:
    function, given = machine[_ENTRY], [array(value, cpu(0)) for value in arrays.values()]
    return lambda: function(*given)


def _onnxruntime(model: str, arrays: Mapping[str, AnyArray]) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = {name: np.asarray(value) for name, value in arrays.items()}
    return lambda: session.run(None, given)


def _turn(run: Callable[[], object]) -> float:
    """The median of the calls that one turn has time for, after one that is not counted."""
    run()
    found: list[float] = []
    end = time.perf_counter() + _TURN_S
    while not found or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


if __name__ == "__main__":
    main()
