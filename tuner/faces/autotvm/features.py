"""Configs as rows of numbers, for thousands of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.faces.autotvm.entities import Entity, OtherOptionEntity, SplitEntity
from tuner.faces.autotvm.space import ConfigEntity, ConfigSpace, numbers
from tuner.faces.common.boosted_trees import Array, Ints


class FeatureTable:
    """The features of every choice of every knob of a space, as tables for looking up a config's.

    Lengths count by their logarithm. A choice that is no number counts by its place among the choices.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self._tables = [_table(choices.entities) for choices in space.space_map.values()]

    def of(self, config: ConfigEntity) -> Array | None:
        """The features of a config, perhaps of a space of other sizes; None when it has other knobs."""
        row: list[float] = []
        for (name, choices), table in zip(self._space.space_map.items(), self._tables):
            if name not in config:
                return None
            entity = config[name]
            place = choices.entities.index(entity) if entity in choices.entities else len(table)
            found = _features(entity, place)
            if len(found) != table.shape[1]:
                return None
            row += found
        return np.array(row)

    def digits(self, indices: Ints) -> Ints:
        """The choice of each knob at each index."""
        columns = []
        for dim in self._space.dims:
            columns.append(indices % dim)
            indices = indices // dim
        return np.stack(columns, axis=1)

    def rows(self, digits: Ints) -> Array:
        """The features of configs given by their choices."""
        return np.concatenate([table[digits[:, k]] for k, table in enumerate(self._tables)], axis=1)


def _table(choices: Sequence[Entity]) -> Array:
    return np.array([_features(entity, at) for at, entity in enumerate(choices)])


def _features(entity: Entity, place: int) -> list[float]:
    match entity:
        case SplitEntity(size):
            return [float(np.log2(s)) for s in size[1:]] or [0.0]
        case OtherOptionEntity(val) if not isinstance(val, int | float):
            return [float(place)]
        case _:
            return numbers(entity)
