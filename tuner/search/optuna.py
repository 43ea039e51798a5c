"""Optuna's samplers as a search.

The tree-structured Parzen estimator chooses a sketch, and a value of each of its decisions (J. Bergstra et al.,
"Algorithms for Hyper-Parameter Optimization", 2011). Needs the extra `optuna`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tuner.errors import TuningError
from tuner.search.base import Candidate
from tuner.search.random import RandomSearch
from tuner.space.repair import repair
from tuner.space.sketch import Sketch

_ATTEMPTS = 8  # trials asked of the sampler for one that is new
_STARTUP = 16  # trials before the sampler looks at results


class OptunaSearch:
    """Ask/tell on an Optuna study in memory.
    Points that are not allowed are repaired; where the sampler only repeats itself, a random point is asked for."""

    def __init__(self, sketches: Sequence[Sketch], seed: int = 0, seen: Iterable[str] = ()) -> None:
        """Raise TuningError when Optuna is not installed."""
        self._optuna = _optuna()
        self._sketches = tuple(sketches)
        self._random = RandomSearch(self._sketches, seed, seen)
        sampler = self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP, constant_liar=True)
        self._study = self._optuna.create_study(sampler=sampler)
        self._open: dict[str, Any] = {}  # trials by the digest of the candidate that is out

    def ask(self, count: int) -> list[Candidate]:
        chosen: list[Candidate] = []
        while len(chosen) < count:
            candidate = self._suggested()
            if candidate is None:
                fallback = self._random.ask(1)
                if not fallback:
                    break
                candidate = fallback[0]
            chosen.append(candidate)
        return chosen

    def tell(self, candidate: Candidate, cost: float | None) -> None:
        trial = self._open.pop(candidate.digest, None)
        self._random.tell(candidate, cost)
        states = self._optuna.trial.TrialState
        if trial is None:
            self._study.add_trial(self._frozen(candidate, cost))
        elif cost is None:
            self._study.tell(trial, state=states.FAIL)
        else:
            self._study.tell(trial, math.log2(cost))

    def _suggested(self) -> Candidate | None:
        for _ in range(_ATTEMPTS):
            trial = self._study.ask()
            sketch = self._sketches[trial.suggest_categorical("sketch", range(len(self._sketches)))]
            names = self._names(sketch)
            wanted = [trial.suggest_int(name, 0, len(d.values) - 1) for name, d in zip(names, sketch.decisions)]
            point = repair(sketch, wanted)
            if point is not None:
                candidate = Candidate(sketch, point)
                if self._random.claim(candidate):
                    self._open[candidate.digest] = trial
                    return candidate
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return None

    def _names(self, sketch: Sketch) -> list[str]:
        place = self._sketches.index(sketch)
        return [f"{place} {at} {decision.name}" for at, decision in enumerate(sketch.decisions)]

    def _frozen(self, candidate: Candidate, cost: float | None) -> Any:
        """A trial of a candidate that the sampler did not suggest."""
        sketch, distributions = candidate.sketch, self._optuna.distributions
        state = self._optuna.trial.TrialState.FAIL if cost is None else self._optuna.trial.TrialState.COMPLETE
        last = [len(d.values) - 1 for d in sketch.decisions]
        sizes = {name: distributions.IntDistribution(0, top) for name, top in zip(self._names(sketch), last)}
        return self._optuna.trial.create_trial(
            params={"sketch": self._sketches.index(sketch), **dict(zip(sizes, candidate.decisions))},
            distributions={"sketch": distributions.CategoricalDistribution(range(len(self._sketches))), **sizes},
            value=None if cost is None else math.log2(cost),
            state=state,
        )


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise TuningError(f"this search needs Optuna: {error}", hint="pip install 'tunefarm[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
