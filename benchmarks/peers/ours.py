"""Time a built kernel once for each line on standard input and print the seconds a call: our side of turns with a peer.

    python benchmarks/peers/ours.py best.tfa
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import numpy as np

from compiler.artifact import Artifact
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact


def main() -> None:
    artifact = Artifact.from_bytes(Path(sys.argv[1]).read_bytes())
    entry = artifact.entries[0]
    rng = np.random.default_rng(0)
    data = [array(rng.random(spec.fixed_shape).astype(spec.dtype)) for spec in entry.args]
    evaluator = load_artifact(artifact).time_evaluator(entry.name, cpu(0), number=5, repeat=3)
    for _ in sys.stdin:
        print(statistics.median(evaluator(*data).results), flush=True)


if __name__ == "__main__":
    main()
