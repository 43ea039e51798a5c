"""The table of models: what `make test-models` found of each, as a page.

    python -m tests.kit.torch.table > benchmarks/results/imported-models.md

Tests leave a row a model in build/models.jsonl, the last of which counts.
"""

from __future__ import annotations

import fcntl
import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from compiler.ir.module import IRModule
from compiler.relax.nodes import Call, Function
from tests.kit.places import ROOT
from tests.kit.taken import taken

ROWS = ROOT / "build" / "models.jsonl"


@dataclass(frozen=True)
class Row:
    """A model: calls of operators after its import, processor time of the import, kernels after the build, and the
    greatest difference to the peer, as a share of the greatest number."""

    source: str
    name: str
    millions: float
    operators: int
    import_s: float
    kernels: int
    error: float


def operators(module: IRModule) -> int:
    """How many calls a module's graphs have."""
    functions = [func for func in module.values() if isinstance(func, Function)]
    bindings = [binding for func in functions for block in func.body.blocks for binding in block.bindings]  # type: ignore[union-attr]
    return sum(isinstance(binding.value, Call) for binding in bindings)  # type: ignore[union-attr]


def kernels(executable: Any) -> int:
    """How many kernels an executable has."""
    return sum(not entry.is_graph for code in executable.program.kernels.values() for entry in code.entries)


def difference(made: list[Any], wanted: list[Any]) -> float:
    """The greatest difference of two lists of arrays, as a share of the greatest number of each array."""
    shares = [
        float(np.abs(a.astype("float64") - b.astype("float64")).max() / np.abs(b.astype("float64")).max())
        for a, b in zip(made, wanted)
    ]
    return max(shares)


def keep(row: Row) -> None:
    """Add a row to the file. Several processes may do so at once."""
    ROWS.parent.mkdir(exist_ok=True)
    with ROWS.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(asdict(row)) + "\n")


def page(rows: list[Row]) -> str:
    """The table as a page of results."""
    text = [
        "# Results: models that are imported", "",
        taken("make test-models; python -m tests.kit.torch.table"), "",
        "`make test-models` imports each of these models with random weights, builds it, and compares it with",
        "eager PyTorch or onnxruntime. Each runs interpreted, as machine code without a call through the",
        "interpreter, and from C in a process without Python. All three give the same bytes.",
        "`[n]` and `_n` stand for a symbolic sequence length. ONNX models above 30 million parameters take",
        "`make test-models LARGE=1`. In `_qdq` models a number at the border between two steps of its 8 bits may",
        "be rounded to either, and the layers after it spread that.", "",
        "| column | meaning |", "|---|---|",
        "| parameters | in millions |",
        "| operators | calls in the imported graph |",
        "| import | processor time of the import, in seconds |",
        "| kernels | different ones in the machine code |",
        "| difference | greatest one to the peer, as a share of the greatest number of the result |", "",
    ]  # fmt: skip
    for source, title in (("torch", "PyTorch"), ("onnx", "ONNX")):
        text += [f"## {title}", "", "| model | parameters | operators | import | kernels | difference |"]
        text += ["|---|---:|---:|---:|---:|---:|"]
        for row in sorted((row for row in rows if row.source == source), key=lambda row: row.name):
            text.append(
                f"| {row.name} | {row.millions:.1f} | {row.operators} | {row.import_s:.2f} | {row.kernels} | "
                f"{row.error:.0e} |"
            )
        text.append("")
    return "\n".join(text)


def main() -> int:
    if not ROWS.exists():
        print(f"{ROWS} is not there: make test-models leaves it", file=sys.stderr)
        return 1
    rows = [Row(**json.loads(line)) for line in ROWS.read_text().splitlines()]
    found = {(row.source, row.name): row for row in rows}
    print(page(list(found.values())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
