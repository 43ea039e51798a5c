"""A small decoder with a cache of keys and values: words a second, and the time to the first one, beside others.

    python benchmarks/decoder.py
    python benchmarks/decoder.py --batches 1 8 --bits 32 4 --threads 1 2 --peers onnxruntime --python onnxruntime=…

Eight layers, 768 wide, with a third as many heads of keys as of queries. A prompt is read, then as many words one by
one. Every runtime has a process of its own, and the processes take turns: a round is one run of each. The caches are
written by the same numpy code for all of them. The last scores are compared with a float64 run of all words at once.
Weights of 4 bits are rounded to the nearest, 32 with a scale, for MatMulNBits. Our kernels are drafted, or tuned with
`--trials` for each. `--cpu` takes the processor's time, which is fair on a machine that others use, for one thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from model_parts.decoding import Decoder
from model_parts.peer_process import PeerProcess, take_turns
from models import Case as ModelCase
from models import Kind, build, in_float64

HERE = Path(__file__).parent
TOLERANCE = 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--bits", nargs="+", type=int, choices=(32, 4), default=[32, 4], help="of a weight")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, len(os.sched_getaffinity(0))])
    parser.add_argument("--words", type=int, default=64, help="of the prompt, and as many after it")
    parser.add_argument("--peers", default="", help="of onnxruntime,openvino,torch")
    parser.add_argument("--python", nargs="*", default=[], help="PEER=PYTHON: an environment that has the peer")
    parser.add_argument("--trials", type=int, default=0, help="for each kernel at most; 0: drafted")
    parser.add_argument("--mean-trials", type=int, help="what a kernel gets on average (default: --trials)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cpu", action="store_true", help="the processor's time, not the clock's")
    parser.add_argument("--quick", action="store_true", help="one narrow layer, few words, one round")
    args = parser.parse_args()
    of = Decoder()
    if args.quick:
        of = Decoder(layers=1, width=96, heads=3, few=1, vocabulary=128, room=16)
        args.batches, args.threads, args.words, args.rounds = [2], [1], 4, 1
    kind = Kind("tunefarm", args.trials, mean_trials=args.mean_trials or args.trials)
    os.environ["TUNEFARM_DRAFT_CACHE"] = ""
    pythons = {"tunefarm": sys.executable, **dict(item.split("=", 1) for item in args.python)}
    titles = ["tunefarm", *(peer for peer in args.peers.split(",") if peer)]
    columns = [
        "bits",
        "batch",
        "threads",
        "runtime",
        "words a second",
        "of the best",
        "first ms",
        "of the best",
        "error",
    ]
    print(f"| {' | '.join(columns)} |")
    print("|---:|---:|---:|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for bits in args.bits:
            for batch in args.batches:
                case = Case.make(replace(of, bits=bits), batch, args.words, Path(folder))
                for threads in dict.fromkeys(args.threads):
                    for row in rows(case, threads, kind, titles, pythons, args.rounds, args.cpu):
                        print(row, flush=True)


@dataclass(frozen=True)
class Case:
    """A decoder's graphs, words for it, and what float64 makes of the last."""

    of: Decoder
    batch: int
    prompt: Path
    step: Path
    words: Path
    wanted: Any

    @staticmethod
    def make(of: Decoder, batch: int, count: int, folder: Path) -> Case:
        stem = folder / f"{of.bits}.{batch}"
        prompt, step, given = (Path(f"{stem}.{name}") for name in ("prompt.onnx", "step.onnx", "words.npy"))
        words = np.random.default_rng(3).integers(0, of.vocabulary, (batch, 2 * count))
        onnx.save(of.prompt(batch, count), prompt)
        onnx.save(of.step(batch), step)
        np.save(given, words)
        wanted = in_float64(replace(of, spread=True).prompt(batch, 2 * count), {"ids": words})
        return Case(of, batch, prompt, step, given, wanted)


class Runtime(PeerProcess):
    """A process that has both graphs ready."""

    def __init__(self, title: str, python: str, graphs: Sequence[Path], case: Case, threads: int) -> None:
        scores = case.words.with_suffix(f".{title}.npy")
        command = [python, HERE / "peers" / "decoder.py", title, *graphs, case.words, scores, threads, case.of.room]
        super().__init__(title, command, scores)
        self.error = "" if self.ready is None else self.compared(case.wanted, TOLERANCE)

    def median(self, name: str, cpu: bool) -> float:
        return statistics.median(sample[f"cpu_{name}" if cpu else name] for sample in self.samples)


def rows(
    case: Case, threads: int, kind: Kind, titles: list[str], pythons: dict[str, str], rounds: int, cpu: bool
) -> list[str]:
    """The table's rows of one decoder on so many threads."""
    with ExitStack() as closing:
        ready = []
        for title in titles:
            graphs = [built(path, threads, kind) if title == "tunefarm" else path for path in (case.prompt, case.step)]
            ready.append(Runtime(title, pythons.get(title, sys.executable), graphs, case, threads))
            closing.callback(ready[-1].close)
        running = [runtime for runtime in ready if runtime.ready is not None]
        take_turns(running, rounds)
        peers = [runtime for runtime in running if runtime.title != "tunefarm"]
        rate = max((peer.median("rate", cpu) for peer in peers), default=None)
        first = min((peer.median("first_ms", cpu) for peer in peers), default=None)
        return [row(case, threads, runtime, rate, first, cpu) for runtime in ready]


def row(case: Case, threads: int, runtime: Runtime, rate: float | None, first: float | None, cpu: bool) -> str:
    cells = [str(case.of.bits), str(case.batch), str(threads), runtime.title]
    if runtime.ready is None:
        return f"| {' | '.join([*cells, 'fails', *[''] * 4])} |"
    own, ms = runtime.median("rate", cpu), runtime.median("first_ms", cpu)
    cells += [f"{own:.1f}", "" if rate is None else f"{own / rate:.2f}"]
    cells += [f"{ms:.1f}", "" if first is None else f"{first / ms:.2f}", runtime.error]
    return f"| {' | '.join(cells)} |"


def built(path: Path, threads: int, kind: Kind) -> Path:
    """A graph as a file for this machine, its kernels drafted or tuned."""
    file = kind.file(path, threads)
    made = build(ModelCase(path.stem, path, path, None), threads, kind, file)
    tuned = f", tuned in {made.tuning_s:.0f} s by {made.trials} trials" if made.trials else ""
    print(f"{path.stem}, {threads} threads: built in {made.build_s:.1f} s{tuned}", file=sys.stderr)
    return made.path


if __name__ == "__main__":
    main()
