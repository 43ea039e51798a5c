"""The cost of a call from Python: a kernel that does next to nothing, with three array arguments, all checks on.

    python benchmarks/call.py
    python benchmarks/call.py --peer /path/to/peer/bin/python

Each figure is the least of several runs' means; ours and the peer's runs are taken in turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import timeit
from pathlib import Path

NUMBER, REPEAT = 20_000, 7
PEER = Path(__file__).parent / "peers" / "call.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="Python with apache-tvm installed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(*call_us())
        return
    commands = {"tunefarm": [sys.executable, __file__, "--once"]}
    if args.peer:
        commands["apache-tvm"] = [args.peer, str(PEER), str(NUMBER), str(REPEAT)]
    best: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for name, command in commands.items():
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seen = [float(word) for word in done.stdout.split()[-2:]]
            best[name] = [min(pair) for pair in zip(best.get(name, seen), seen)]
    print(f"{'':12}{'module[name](a, b, c), us':>28}{'function(a, b, c), us':>26}")
    for name, (looked_up, held) in best.items():
        print(f"{name:12}{looked_up:28.2f}{held:26.2f}")
    if args.peer:
        looked_up, held = (ours / peers for ours, peers in zip(best["tunefarm"], best["apache-tvm"]))
        print(f"{'ours / peer':12}{looked_up:28.2f}{held:26.2f}")


def call_us() -> tuple[float, float]:
    """Microseconds per call, with and without looking the function up each time."""
    import numpy as np

    import tunefarm as tvm
    from tunefarm import te

    a, b = te.placeholder((16,), name="A"), te.placeholder((16,), name="B")
    c = te.compute((16,), lambda i: a[i] + b[i], name="C")
    module = tvm.build(te.create_schedule(c.op), [a, b, c], target="llvm", name="add")
    x, y, z = (tvm.nd.array(np.ones(16, "float32")) for _ in range(3))
    function = module["add"]
    runs = (lambda: module["add"](x, y, z)), (lambda: function(x, y, z))
    looked_up, held = (min(timeit.repeat(run, number=NUMBER, repeat=REPEAT)) / NUMBER * 1e6 for run in runs)
    return looked_up, held


if __name__ == "__main__":
    main()
