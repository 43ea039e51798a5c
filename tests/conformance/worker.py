"""Runs cases through the backend in a process that cannot import another implementation."""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

BANNED = ("onnx.reference", "onnxruntime", "torch")


class _Ban(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if any(name == banned or name.startswith(banned + ".") for banned in BANNED):
            raise ImportError(f"{name} must not be imported where the backend runs")


def run_case(case: Any) -> dict[str, Any]:
    """The outcome of a case: `stage` is "" if it passed, else `why` is the reason.

    The model is compiled by `prepare`. Where that needs values of inputs, `needs_values` says so, and it is compiled
    when it first runs.
    """
    import onnx

    from compiler.frontend.onnx.errors import NeedsValueError
    from tests.conformance.cases import difference, is_rounding
    from tunefarm.contrib import onnx_backend

    begun = time.perf_counter(), time.process_time()
    result: dict[str, Any] = {"name": case.name, "stage": "prepare", "why": "", "needs_values": ""}
    try:
        model = onnx.ModelProto.FromString(case.model)
        try:
            rep = onnx_backend.prepare(model, recompile=False)
        except NeedsValueError as error:
            result["needs_values"] = _line(error)
            rep = onnx_backend.prepare(model)
        result["stage"] = "run"
        found, wanted = list(rep.run(case.inputs)), case.outputs
        why = difference(found, wanted, case.rtol, case.atol)
        if not why and case.other_inputs is not None:
            result["stage"] = "other values"
            found, wanted = list(rep.run(case.other_inputs)), case.other_outputs
            why = difference(found, wanted, case.rtol, max(case.atol, 1e-6))
        if not why:
            result["stage"] = ""
        elif is_rounding(found, wanted):
            result["stage"], why = "rounding", f"{why}: rounding, no more than 4 units in the last place of the largest"
        result["why"] = why
        result["wrong"] = bool(why) and result["stage"] != "rounding"
    except Exception as error:  # every failure is a miss with its reason
        result["why"] = _line(error)
        result["error"] = type(error).__name__
        if sys.flags.dev_mode:
            raise
    result["seconds"], result["cpu"] = time.perf_counter() - begun[0], time.process_time() - begun[1]
    return result


def _line(error: Exception) -> str:
    """The first line of an error's text; for operators that cannot be imported the second, which has the reason."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[type(error).__name__ == "UnsupportedOperatorsError" and len(lines) > 1].strip()[:300]


def main(argv: Sequence[str]) -> None:
    """Run the cases of FILE whose names come on standard input, a line each; print two lines of JSON for each."""
    sys.meta_path.insert(0, _Ban())
    warnings.simplefilter("ignore")
    held = {case.name: case for case in pickle.loads(Path(argv[0]).read_bytes())}
    for line in sys.stdin:
        name = line.strip()
        print(json.dumps({"begin": name}), flush=True)
        print(json.dumps(run_case(held[name])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
