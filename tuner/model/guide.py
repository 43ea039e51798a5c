"""A search's guide before measurements: features of candidates, and a prior score."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.model.errors import FeatureError, ModelError
from tuner.model.features import NAMES, SketchFeatures
from tuner.model.library import Found
from tuner.model.types import Floats
from tuner.space.sketch import Sketch

_TRUST = 0.5  # in a model, the rest in the draft, which also holds for sizes that the model has seen none of
_DRAFT, _BALANCE, _OPS = NAMES.index("draft"), NAMES.index("balance"), NAMES.index("ops")


class Guide:
    """Describes the points of a task's sketches as rows of numbers, all of one length, and scores them.

    With features, the score is the mean of a model's, if there is one, and the analytic draft's. Without them, rows
    are the decisions' values and the score is the sketch's own draft. `says` tells a person which.
    """

    def __init__(self, sketches: Sequence[Sketch], says: str = "the sketches' own drafts") -> None:
        self.says = says
        self._place = {id(sketch): place for place, sketch in enumerate(sketches)}
        names = sorted({d.name for sketch in sketches for d in sketch.decisions})
        self._columns = {name: len(sketches) + at for at, name in enumerate(names)}
        self._features: dict[int, SketchFeatures] = {}
        self._model: Found | None = None
        self._most = 0.0  # operations of the sketch that needs most, their logarithm

    @staticmethod
    def of(
        sketches: Sequence[Sketch],
        func: n.PrimFunc,
        target: Target,
        find_model: Callable[[], Found | None] = lambda: None,
        like: Guide | None = None,
    ) -> Guide:
        """Return a guide with features where every sketch has them, and with a model where one can be used.

        `like` is a guide to the same sketches of the same function, whose features it takes.
        """
        known = {} if like is None else like._features
        try:
            features = {id(s): known.get(id(s)) or SketchFeatures.of(s, func, target) for s in sketches}
        except FeatureError as error:
            return Guide(sketches, f"the sketches' own drafts, because there are no features: {error.message}")
        try:
            model = find_model()
            says = "the analytic draft" if model is None else model.origin
        except ModelError as error:
            model, says = None, f"the analytic draft, because the model is of no use: {error.message}"
        guide = Guide(sketches, says)
        guide._features, guide._model = features, model
        guide._most = max(
            (float(f.matrix([[0] * len(f.nest.tables)])[0, _OPS]) for f in features.values()), default=0.0
        )
        return guide

    def describe(self, sketch: Sketch, points: Sequence[Sequence[int]]) -> tuple[Floats, Floats]:
        """Rows of features (points, columns) and prior scores (points); a higher score promises a lower cost."""
        where = np.asarray(points, np.int64).reshape(len(points), len(sketch.decisions))
        rows = np.zeros((len(points), len(self._place) + len(self._columns)))
        rows[:, self._place[id(sketch)]] = 1.0
        for at, decision in enumerate(sketch.decisions):
            values = np.array(decision.values, float)
            scale = np.log2(values) if (values > 0).all() else values
            rows[:, self._columns[decision.name]] = scale[where[:, at]]
        features = self._features.get(id(sketch))
        if features is None:
            return rows, np.array([sketch.score(point) for point in points])
        matrix, late = features.described(where)
        return np.concatenate([rows, matrix], axis=1), self._prior(matrix) + late

    def _prior(self, matrix: Floats) -> Floats:
        """Add the gain of sketches that need fewer operations for the same result.
        Speeds are of operations."""
        saved = self._most - matrix[:, _OPS]
        drafted: Floats = matrix[:, _DRAFT]
        if self._model is None:
            return drafted + saved
        score = self._model.scale * self._model.forest.predict(matrix)
        if self._model.serial:
            score = score + np.log2(matrix[:, _BALANCE])
        return _TRUST * score + (1.0 - _TRUST) * drafted + saved
