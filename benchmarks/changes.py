"""How often fleet benchmarking raises a false alarm, and how often it finds a change that is there.

    python benchmarks/changes.py
    python benchmarks/changes.py --series 5000
    python benchmarks/changes.py --recorded series.json.gz

Synthetic series: log-normal noise with a tenth of the results disturbed (slower by up to ten times the noise), a slow
drift, and steps of several sizes. A result that is suspect is measured again, as `tunefarm bench run` does; only a
suspicion that stays is an alarm.

Recorded series (`record_series.py`): real times, whose disturbances come in bursts. They are played result by result;
what is measured again when one is suspect are the results that follow it. A step is put at each place in turn.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tuner.bench.changes import LEAST_HISTORY, RERUNS, confirmed, judge

LENGTH = 40
STEPS = (0.05, 0.1, 0.2, 0.5)
RECORDED = Path(__file__).parent / "data" / "series.json.gz"


def measured(rng: np.random.Generator, level: float, noise: float) -> float:
    disturbed = noise * rng.uniform(2, 10) if rng.random() < 0.1 else 0.0
    return float(np.exp(level + noise * rng.normal() + disturbed))


def alarm(rng: np.random.Generator, history: list[float], level: float, noise: float) -> bool:
    """Whether the next result of the series raises one; it joins the series."""
    cost = measured(rng, level, noise)
    verdict = judge(history, cost)
    again: list[float] = []
    while verdict.changed and (settled := confirmed(verdict, again)) is None:
        again.append(measured(rng, level, noise))
    history.append(float(np.median([cost, *again])))
    return verdict.changed and bool(settled)


def false_alarms(rng: np.random.Generator, noise: float, series: int) -> float:
    """Alarms a result, over series in which nothing but a drift of the noise's size happens."""
    alarms = 0
    for _ in range(series):
        history: list[float] = []
        drift = noise * rng.uniform(-1, 1) / LENGTH
        alarms += sum(alarm(rng, history, drift * at, noise) for at in range(LENGTH))
    return alarms / (series * LENGTH)


def found(rng: np.random.Generator, noise: float, step: float, series: int) -> tuple[float, float]:
    """The share of steps found at once, and within three results."""
    at_once = within = 0
    for _ in range(series):
        history = [measured(rng, 0.0, noise) for _ in range(20)]
        hits = [alarm(rng, history, float(np.log1p(step)), noise) for _ in range(3)]
        at_once += hits[0]
        within += any(hits)
    return at_once / series, within / series


# ------------------------------------------------------------------------------------ recorded series


def played(costs: Iterator[float], history: list[float]) -> bool | None:
    """Whether the next results raise an alarm; they join the history as one. None when too few are left to tell."""
    cost = next(costs, None)
    if cost is None:
        return None
    verdict, again = judge(history, cost), list[float]()
    while verdict.changed and (settled := confirmed(verdict, again)) is None:
        if (more := next(costs, None)) is None:
            return None
        again.append(more)
    history.append(float(np.median([cost, *again])))
    return verdict.changed and bool(settled)


def recorded_alarms(costs: Sequence[float]) -> tuple[int, int]:
    """How many alarms, of how many results judged."""
    history, left = list(costs[:LEAST_HISTORY]), iter(costs[LEAST_HISTORY:])
    alarms = judged = 0
    while (raised := played(left, history)) is not None:
        alarms, judged = alarms + raised, judged + 1
    return alarms, judged


def recorded_found(costs: Sequence[float], step: float) -> tuple[int, int]:
    """How many steps, put at each place with a history and room for measuring again, are found at once; of how many."""
    places = range(20, len(costs) - RERUNS)
    slower = [(list(costs[:at]), iter([cost * (1 + step) for cost in costs[at:]])) for at in places]
    return sum(bool(played(left, history)) for history, left in slower), len(places)


def noise_of(costs: Sequence[float]) -> float:
    """The median relative difference of a result from the one before it."""
    return float(np.median(np.abs(np.diff(np.log(costs)))))


def report_recorded(file: Path) -> None:
    series: dict[str, list[float]] = json.loads(gzip.decompress(file.read_bytes()))
    print(
        f"\n{'recorded series':<26}{'noise':>7}{'false alarms':>14}"
        + "".join(f"{f'+{s:.0%} found':>12}" for s in STEPS)
    )
    totals = np.zeros((1 + len(STEPS), 2), dtype=int)
    for kernel, costs in series.items():
        counts = np.array([recorded_alarms(costs), *(recorded_found(costs, step) for step in STEPS)])
        totals += counts
        print(f"{kernel.removesuffix(':float32'):<26}{noise_of(costs):>7.1%}{_cells(counts)}")
    print(f"{'all':<33}{_cells(totals)}")


def _cells(counts: np.ndarray) -> str:
    (alarms, judged), *found_of = counts
    return f"{f'{alarms} in {judged}':>14}" + "".join(f"{found / of:>12.1%}" for found, of in found_of)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--recorded", type=Path, default=RECORDED, help="series that record_series.py wrote")
    args = parser.parse_args()
    head = "".join(f"{f'+{step:.0%} found':>18}" for step in STEPS)
    print(f"{'noise':>6}{'false alarms':>18}{head}    (at once / within three results)")
    for noise in (0.005, 0.01, 0.02, 0.05):
        rng = np.random.default_rng(7)
        rate = false_alarms(rng, noise, max(10, args.series // 5))
        cells = [found(rng, noise, step, args.series) for step in STEPS]
        row = "".join(f"{f'{once:.1%} / {late:.1%}':>18}" for once, late in cells)
        print(f"{noise:>6.1%}{f'{1e3 * rate:.2f} in 1000':>18}{row}")
    report_recorded(args.recorded)


if __name__ == "__main__":
    main()
