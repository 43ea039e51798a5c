"""One function at many sizes: a portfolio against tuning each size alone.

    python benchmarks/families.py
    python benchmarks/families.py --only dense --trials 64 --portfolio 3
    python benchmarks/families.py --quick

Each size is tuned alone with so many trials, and all sizes together with a third of them. Then the kernels of both are
built and timed in turns on this machine: own best, the portfolio's pick, and for sizes that were held out the kernel
that the rule leads to, once with constant sizes and once as the general kernel of the dispatching entry. Last comes
what the dispatch itself costs, in nanoseconds, from calls of kernels that do nothing.

`--quick` is the same claim in a third of the time: 24 trials alone and 8 together, three sizes held
out, shorter samples and finals on both sides.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.driver.dispatch import DispatchedEntry, dispatch_artifact
from compiler.runtime.core.code.cpu_function import CPUFunction
from compiler.runtime.core.ndarray import NDArray, array, empty
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.size_rule import Size, SizeRule
from compiler.target.target import Target
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from compiler.tir import nodes as n
from tuner.devices.supplies import LocalFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_search
from tuner.families.build import at_size, build_family
from tuner.families.family import Family, FamilySpec
from tuner.families.plan import family_search, finals_of
from tuner.families.record import FamilyRecord
from tuner.families.sizes import SizeList
from tuner.records.store import RecordStore
from tuner.task import TuningTask

LEAST_S = 0.02
"""How long the calls of one sample take together."""


@dataclass(frozen=True)
class Case:
    spec: str
    sizes: tuple[int, ...]
    held_out: tuple[int, ...]


CASES = {
    "dense": Case(
        "dense:M,3072,768",
        (1, 2, 4, 8, 12, 16, 17, 24, 32, 48, 64, 65, 96, 128, 160, 197, 256, 320, 384, 512),
        (6, 20, 40, 80, 144, 224, 448),
    ),
    "conv2d": Case("conv2d:1,64,H,H,64,3,3", (7, 8, 14, 15, 20, 28, 32, 40, 56, 64, 80, 112), (10, 24, 48, 96)),
    "small": Case("dense:M,64,32", (1, 4, 16), (8,)),
}


class Bench:
    """Runs on this machine, and what they found."""

    def __init__(self, case: Case, trials: int, most: int, rounds: int, quick: bool) -> None:
        self.spec, self.case = FamilySpec.parse(case.spec), case
        self.trials, self.most, self.rounds = trials, most, rounds
        self.options = RunOptions(trials=trials, scheduler="round-robin")
        if quick:
            self.options = replace(self.options, max_samples=3, sample_ms=5, finalists=2, final_rounds=2)
        self.fleet = LocalFleet()
        self.target = self.fleet.target()
        self.sizes = SizeList(self.spec.symbols, tuple((size,) for size in case.sizes))

    def alone(self, sizes: Sequence[Size]) -> dict[Size, str | None]:
        """The best trace of each size, all tuned in one run that shares nothing."""
        tasks = [TuningTask.from_spec(self.spec.at(self.sizes, size), self.target) for size in sizes]
        searches = [sketch_search(task) for task in tasks]
        found = tune(searches, fleet=self.fleet, options=self.options).best
        return {size: None if best is None else best.candidate.trace_json for size, best in zip(sizes, found)}

    def together(self) -> FamilyRecord:
        """The family, with a third of the trials."""
        options = replace(self.options, trials=max(2, self.trials // 3))
        family = family_search(Family(self.spec, self.sizes), self.target, options, self.most)
        with TemporaryDirectory() as folder, RecordStore.open(Path(folder, "records.db"), create=True) as store:
            outcome = tune(family.searches, fleet=self.fleet, options=options, store=store)
            family.settle(finals_of(store, outcome.snapshot.run_id))  # as `tunefarm tune` does
        tasks = outcome.snapshot.tasks
        return family.record([task.untuned_cost for task in tasks], sum(task.done for task in tasks))

    def built(self, size: Size, trace: str | None) -> CPUFunction:
        """The kernel of a size with a trace."""
        func = self.spec.at(self.sizes, size).prim_func()
        made = func if trace is None else apply_trace(func, Trace.from_json(trace)).func
        return loaded(compile_artifact(made, Target(self.target), keep=()))

    def arguments(self, size: Size) -> tuple[NDArray, ...]:
        """Arrays of random numbers for a call at a size."""
        func = self.spec.at(self.sizes, size).prim_func()
        rng = np.random.default_rng(0)
        shapes = [tuple(int(e.value) for e in func.buffer_map[p].shape) for p in func.params]  # type: ignore[attr-defined]
        return (*(array(rng.random(shape, "float32")) for shape in shapes[:-1]), empty(shapes[-1]))

    def timed(self, functions: Sequence[CPUFunction], size: Size) -> list[float]:
        """Seconds a call of each: the medians of samples taken in turns."""
        held = [self.arguments(size) for _ in functions]
        slots = [function.pack(arguments) for function, arguments in zip(functions, held)]
        numbers = [max(1, int(LEAST_S * 1e9 / max(1, f.run_timed(s, 1)))) for f, s in zip(functions, slots)]
        samples: list[list[float]] = [[] for _ in functions]
        for _ in range(self.rounds):
            for at, function in enumerate(functions):
                samples[at].append(function.run_timed(slots[at], numbers[at]) * 1e-9 / numbers[at])
        return [statistics.median(of) for of in samples]


def loaded(artifact: Artifact) -> CPUFunction:
    function = load_artifact(artifact)[artifact.entries[0].name]
    assert isinstance(function, CPUFunction)
    return function


def measure(name: str, case: Case, trials: int, most: int, rounds: int, quick: bool) -> None:
    """Print a row a size, and the means."""
    if quick:
        case = replace(case, held_out=case.held_out[:: max(1, len(case.held_out) // 3)][:3])
    bench = Bench(case, trials, most, rounds, quick)
    held_out = [(size,) for size in case.held_out]
    began = time.monotonic()
    own = bench.alone([*bench.sizes.sizes, *held_out])
    alone_s, began = time.monotonic() - began, time.monotonic()
    record = bench.together()
    together_s = time.monotonic() - began
    spent = trials * len(case.sizes)
    print(f"\n{name}: {case.spec}, {bench.target}")
    print(f"alone {spent} trials of {len(case.sizes)} sizes ({alone_s:.0f} s with those held out), ", end="")
    print(f"together {record.trials} trials ({together_s:.0f} s), {len(record.configs)} configs")
    for config in record.configs:
        print(f"  {config}")
    print(f"rule {record.rule.to_json()['tree']}, held-out loss by its own account {record.dispatch.held_out:.3f}")
    dispatched = loaded(build_family(record).artifact)
    print(f"{'size':>8} {'own best µs':>12} {'portfolio':>10} {'dispatched':>10}  pick")
    ratios: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for size in [*bench.sizes.sizes, *held_out]:
        known = size in bench.sizes.sizes
        trace = record.traces[bench.sizes.sizes.index(size)] if known else None
        func = at_size(record, size, trace)
        assert func is not None
        picked = loaded(compile_artifact(func, Target(bench.target), keep=()))
        best, here, through = bench.timed([bench.built(size, own[size]), picked, dispatched], size)
        ratios[known].append((here / best, through / best))
        mark = "" if known else " held out"
        times = f"{best * 1e6:12.1f} {here / best:10.3f} {through / best:10.3f}"
        print(f"{size[0]:>8} {times}  {record.rule.pick(size)}{mark}")
    for known, text in ((True, "measured"), (False, "held-out")):
        here, through = (statistics.geometric_mean(column) for column in zip(*ratios[known], strict=True))
        print(f"{text} sizes over each one's own best (geometric mean): {100 * (here - 1):+.1f} % as picked, ", end="")
        print(f"{100 * (through - 1):+.1f} % through the dispatching entry")
    print(f"dispatch: {dispatch_ns(record.rule, rounds):.1f} ns a call")
    bench.fleet.close()


def dispatch_ns(rule: SizeRule, rounds: int) -> float:
    """Nanoseconds that the entry adds to a call: kernels that write one number, called directly and through it."""
    target = Target.host()
    kernels = [_almost_nothing(rule, number) for number in range(max(rule.picks) + 1)]
    [own] = kernels[0].entries
    chosen = loaded(
        dispatch_artifact(DispatchedEntry("chosen", own.args, own.outputs, own.implicit), rule, kernels, target)
    )
    added = []
    number = 2_000_000
    for size in rule.known:
        pick = rule.pick(size)
        if pick < 0:
            continue
        direct = loaded(kernels[pick])
        arguments = (empty(size), empty((1,)))
        pairs = [
            chosen.run_timed(chosen.pack(arguments), number) - direct.run_timed(direct.pack(arguments), number)
            for _ in range(rounds)
        ]
        added.append(statistics.median(pairs) / number)
    return statistics.fmean(added)


def _almost_nothing(rule: SizeRule, number: int) -> Artifact:
    """A kernel over the rule's sizes that writes one number."""
    variables = tuple(n.SizeVar(symbol, "int32") for symbol in rule.symbols)
    given = placeholder(variables, name="A")
    out = compute((1,), lambda i: given[tuple(0 for _ in variables)] + float(number), name="B")
    return compile_artifact(create_prim_func([given, out]), Target.host(), name=f"kernel_{number}", keep=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(CASES), help="this family; may be given often")
    parser.add_argument("--trials", type=int, help="of a size that is tuned alone (default: 64, or 24 with --quick)")
    parser.add_argument("--quick", action="store_true", help="fewer trials on both sides and three held-out sizes")
    parser.add_argument("--portfolio", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7, help="samples of each kernel in the comparison")
    args = parser.parse_args()
    trials = args.trials or (24 if args.quick else 64)
    for name in args.only or ("dense", "conv2d"):
        measure(name, CASES[name], trials, args.portfolio, args.rounds, args.quick)


if __name__ == "__main__":
    main()
