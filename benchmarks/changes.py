"""How often fleet benchmarking raises a false alarm, and how often it finds a change that is there.

    python benchmarks/changes.py
    python benchmarks/changes.py --series 5000

Synthetic series: log-normal noise with a tenth of the results disturbed (slower by up to ten times the noise), a slow
drift, and steps of several sizes. A result that is suspect is measured again, as `tunefarm bench run` does; only a
suspicion that stays is an alarm.
"""

from __future__ import annotations

import argparse

import numpy as np

from tuner.bench.changes import confirmed, judge

LENGTH = 40


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=1000)
    args = parser.parse_args()
    steps = (0.05, 0.1, 0.2, 0.5)
    head = "".join(f"{f'+{step:.0%} found':>18}" for step in steps)
    print(f"{'noise':>6}{'false alarms':>18}{head}    (at once / within three results)")
    for noise in (0.005, 0.01, 0.02, 0.05):
        rng = np.random.default_rng(7)
        rate = false_alarms(rng, noise, max(10, args.series // 5))
        cells = [found(rng, noise, step, args.series) for step in steps]
        row = "".join(f"{f'{once:.1%} / {late:.1%}':>18}" for once, late in cells)
        print(f"{noise:>6.1%}{f'{1e3 * rate:.2f} in 1000':>18}{row}")


if __name__ == "__main__":
    main()
