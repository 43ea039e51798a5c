"""Runs cases through the backend in a process that cannot import another implementation."""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

BANNED = ("onnx.reference", "onnxruntime", "torch")


class _Ban(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if any(name == banned or name.startswith(banned + ".") for banned in BANNED):
            raise ImportError(f"{name} must not be imported where the backend runs")


def run_case(case: Any, recompile: bool) -> dict[str, Any]:
    """What became of a case: `stage` is "" where it passed, `why` the reason else."""
    import onnx

    from tests.conformance.cases import difference
    from tunefarm.contrib import onnx_backend

    start = time.perf_counter()
    result: dict[str, Any] = {"name": case.name, "stage": "prepare", "why": "", "other": case.other_inputs is not None}
    try:
        rep = onnx_backend.prepare(onnx.ModelProto.FromString(case.model), recompile=recompile)
        result["recompiled"] = rep.recompiles
        result["prepare_s"] = time.perf_counter() - start
        result["stage"] = "run"
        why = difference(list(rep.run(case.inputs)), case.outputs, case.rtol, case.atol)
        if not why and case.other_inputs is not None:
            result["stage"] = "other values"
            why = difference(list(rep.run(case.other_inputs)), case.other_outputs, case.rtol, max(case.atol, 1e-6))
        result["why"] = why
        if not why:
            result["stage"] = ""
    except Exception as error:  # every failure is a miss with its reason
        result["why"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
        if sys.flags.dev_mode:
            raise
    result["seconds"] = time.perf_counter() - start
    return result


def main(argv: Sequence[str]) -> None:
    """Run the cases number FIRST, FIRST + STEP, ... of FILE; print a line of JSON for each."""
    sys.meta_path.insert(0, _Ban())
    path, mode, first, step = Path(argv[0]), argv[1], int(argv[2]), int(argv[3])
    names = set(argv[4:])
    for case in pickle.loads(path.read_bytes())[first::step]:
        if names and case.name not in names:
            continue
        print(json.dumps({"begin": case.name}), flush=True)
        print(json.dumps(run_case(case, mode == "recompile")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
