"""Config spaces: the knobs that a template defines, and a choice for each of them.

A template is run once with a `ConfigSpace`, which notes each knob, and then with a `ConfigEntity` for every
candidate, which answers with what was chosen. A config is known by its index: the knobs' choices are the digits of a
number whose first knob is the least.
"""

from __future__ import annotations

import math
import random
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from tuner.faces.autotvm.axes import Axis, VirtualAxis
from tuner.faces.autotvm.entities import Entity, OtherOptionEntity, SplitEntity, entity_from_json
from tuner.faces.autotvm.errors import AutotvmRecordError, ConfigError, InstantiationError
from tuner.faces.autotvm.transforms import AnnotateSpace, AnySpace, OtherOptionSpace, ReorderSpace, SplitSpace


class Config(ABC):
    """The config that a template sees: it defines knobs, and returns a value for each."""

    is_fallback = False

    def __init__(self) -> None:
        self.flop = 0.0
        self.errors: list[str] = []

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """The value of a knob. Raises ConfigError for an unknown knob."""

    # -- defining knobs

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """An axis to define knobs over: of a te axis, or a length."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(
        self, name: str, axis: Any, policy: str = "factors", num_outputs: int = 2, **options: Any
    ) -> list[Axis]:
        """A knob: how `axis` is split in `num_outputs` loops; see `SplitSpace` for policies and options."""
        return self._define(name, num_outputs, lambda: SplitSpace(VirtualAxis(axis), policy, num_outputs, **options))

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str = "all", **options: Any) -> list[Axis]:
        """A knob: the order of `axes`; see `ReorderSpace`."""
        return self._define(name, len(axes), lambda: ReorderSpace(axes, policy, **options))

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[Axis]:
        """A knob: what becomes of each of `axes`; see `AnnotateSpace`."""
        return self._define(name, len(axes), lambda: AnnotateSpace(axes, policy, **options))

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """A knob: one of the values in `candidate`, read as `cfg[name].val`."""
        self._define(name, 0, lambda: OtherOptionSpace(candidate))

    def _define(self, name: str, num_output: int, make: Callable[[], AnySpace]) -> list[Axis]:
        """A config that is chosen only says how many loops come out."""
        return [Axis(None, i) for i in range(num_output)]

    def multi_filter(self, filter: Callable[[ConfigEntity], bool]) -> None:  # noqa: B027  (a chosen config ignores it)
        """Keep only configs for which `filter` holds: a constraint over several knobs."""

    # -- telling

    def add_flop(self, flop: float) -> None:
        """Add to the number of operations of a call, which then replaces the number counted in the definition."""
        self.flop += float(flop)

    def raise_error(self, msg: str) -> None:
        """Say that the template cannot be built with this config."""
        self.errors.append(msg)

    def valid(self) -> bool:
        return not self.errors


class ConfigSpace(Config):
    """The configs of a template.
    Indices run from 0 to `range_length`; those that a filter rules out are not valid and not counted by `len`."""

    def __init__(self) -> None:
        super().__init__()
        self.space_map: dict[str, AnySpace] = {}
        self._filters: list[Callable[[ConfigEntity], bool]] = []

    def __getitem__(self, name: str) -> Entity:
        """The first choice of a knob: what the template sees while it defines the space."""
        if name not in self.space_map:
            raise _unknown(name, self.space_map)
        return self.space_map[name][0]

    def _define(self, name: str, num_output: int, make: Callable[[], AnySpace]) -> list[Axis]:
        if name not in self.space_map:
            space = make()
            if not len(space):
                raise ConfigError(f"knob {name!r} has no choices", hint="loosen its filter or max_factor")
            self.space_map[name] = space
            self.__dict__.pop("_valid_count", None)
        return self.space_map[name].axes

    def multi_filter(self, filter: Callable[[ConfigEntity], bool]) -> None:
        self._filters.append(filter)
        self.__dict__.pop("_valid_count", None)

    # -- indices

    @property
    def dims(self) -> list[int]:
        """How many choices each knob has."""
        return [len(space) for space in self.space_map.values()]

    @property
    def range_length(self) -> int:
        return math.prod(self.dims)

    def __len__(self) -> int:
        return self.range_length if not self._filters else self._valid_count

    @cached_property
    def _valid_count(self) -> int:
        return sum(self.is_index_valid(index) for index in range(self.range_length))

    def get(self, index: int) -> ConfigEntity:
        """The config at `index`. Raises IndexError outside `range_length`."""
        if not 0 <= index < self.range_length:
            raise IndexError(f"index {index} is out of range: the space has {self.range_length} configs")
        digits = self.point2knob(index)
        return ConfigEntity(index, {n: s[d] for (n, s), d in zip(self.space_map.items(), digits)})

    def __iter__(self) -> Iterator[ConfigEntity]:
        return (self.get(index) for index in range(self.range_length) if self.is_index_valid(index))

    def is_index_valid(self, index: int) -> bool:
        """Whether `index` is in range and its config passes the filters."""
        if not 0 <= index < self.range_length:
            return False
        return not self._filters or all(keep(self.get(index)) for keep in self._filters)

    def get_next_index(self, index: int, n: int = 1, start: int | None = None, end: int | None = None) -> int | None:
        """The `n`-th valid index above `index`, or None at the end.
        A negative `n` counts down, and [start, end) bounds the index."""
        first, last = 0 if start is None else start, self.range_length if end is None else end
        places = range(index + 1, last) if n > 0 else range(index - 1, first - 1, -1)
        valid = (i for i in places if i >= first and self.is_index_valid(i))
        return next(islice(valid, abs(n) - 1, None), None)

    def subrange_length(self, start: int, end: int) -> int:
        """How many indices of [start, end) are valid."""
        if not 0 <= start <= end <= self.range_length:
            raise ConfigError(f"[{start}, {end}) is no part of the {self.range_length} indices")
        return sum(self.is_index_valid(index) for index in range(start, end)) if self._filters else end - start

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Container[int] | None = None
    ) -> int:
        """Draw a valid index of [start, end) that is not in `to_exclude`.
        Raises ConfigError where there is none."""
        places = range(0 if start is None else start, self.range_length if end is None else end)
        excluded: Container[int] = () if to_exclude is None else to_exclude
        left = [index for index in places if index not in excluded and self.is_index_valid(index)]
        if not left:
            raise ConfigError(f"no index of {places} is valid and not excluded")
        return random.choice(left)

    def sample_ints(self, m: int) -> set[int]:
        """Draw `m` different valid indices, all of them where there are fewer."""
        valid = [index for index in range(self.range_length) if self.is_index_valid(index)]
        return set(random.sample(valid, min(m, len(valid))))

    def random_walk(self, point: int) -> int:
        """Draw the index of another valid config, which differs in one knob if possible."""
        digits = self.point2knob(point)
        near = [
            index
            for at, dim in enumerate(self.dims)
            for digit in range(dim)
            if digit != digits[at]
            and self.is_index_valid(index := self.knob2point([*digits[:at], digit, *digits[at + 1 :]]))
        ]
        return random.choice(near) if near else self.get_rand_index(to_exclude=(point,))

    def clear_cache(self) -> None:
        """Forget how many configs are valid."""
        self.__dict__.pop("_valid_count", None)

    def point2knob(self, point: int) -> list[int]:
        """Which choice each knob has at an index."""
        digits = []
        for dim in self.dims:
            digits.append(point % dim)
            point //= dim
        return digits

    def knob2point(self, knob: Sequence[int]) -> int:
        """The index of a choice for each knob."""
        point = 0
        for digit, dim in zip(reversed(list(knob)), reversed(self.dims), strict=True):
            point = point * dim + int(digit)
        return point

    def __repr__(self) -> str:
        lines = [f"ConfigSpace (len={len(self)}, range_length={self.range_length}, space_map="]
        lines += [f"  {at:2d} {name}: {space!r}" for at, (name, space) in enumerate(self.space_map.items())]
        return "\n".join([*lines, ")"])


class ConfigEntity(Config):
    """A value for each knob. `index` is its place in the space, -1 when it was read from elsewhere."""

    def __init__(self, index: int, entity_map: Mapping[str, Entity], code_hash: str | None = None) -> None:
        super().__init__()
        self.index = index
        self.code_hash = code_hash
        self._entity_map = dict(entity_map)

    def __getitem__(self, name: str) -> Any:
        if name not in self._entity_map:
            raise _unknown(name, self._entity_map)
        return self._entity_map[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entity_map

    def __len__(self) -> int:
        return len(self._entity_map)

    def keys(self) -> list[str]:
        return list(self._entity_map)

    def get_flatten_feature(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The knobs' values as numbers."""
        return np.array([f for entity in self._entity_map.values() for f in numbers(entity)], dtype=np.float64)

    def get_other_option(self) -> dict[str, Any]:
        """The values of the knobs made by `define_knob`."""
        return {name: e.val for name, e in self._entity_map.items() if isinstance(e, OtherOptionEntity)}

    def to_json_dict(self) -> dict[str, Any]:
        """Return it as a record has it: `{"index": …, "code_hash": …, "entity": [[name, kind, value], …]}`."""
        entities = [[name, *entity.to_json()] for name, entity in self._entity_map.items()]
        return {"index": self.index, "code_hash": self.code_hash, "entity": entities}

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """The inverse of `to_json_dict`. Raises RecordError."""
        try:
            entities = {str(name): entity_from_json(kind, value) for name, kind, value in json_dict["entity"]}
            return ConfigEntity(int(json_dict["index"]), entities, json_dict.get("code_hash"))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, AutotvmRecordError):
                raise
            raise AutotvmRecordError(f"not a config: {json_dict!r} ({error})") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and self._entity_map == other._entity_map

    def __hash__(self) -> int:
        return hash(tuple(self._entity_map.items()))

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash},{self.index}"


class FallbackConfigEntity(ConfigEntity):
    """The config of a template that was not tuned.
    It has each knob's first choice, unless the template sets another by `cfg[name] = …`, or asks for one within
    bounds (`fallback_split`)."""

    is_fallback = True

    def __init__(self) -> None:
        super().__init__(-1, {})
        self.space_map: dict[str, AnySpace] = {}

    def __setitem__(self, name: str, entity: Entity) -> None:
        self._entity_map[name] = entity

    def _define(self, name: str, num_output: int, make: Callable[[], AnySpace]) -> list[Axis]:
        space = self.space_map.setdefault(name, make())
        if not len(space):
            raise ConfigError(f"knob {name!r} has no choices", hint="loosen its filter or max_factor")
        self._entity_map.setdefault(name, space[0])
        return space.axes

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Choose the split with the largest lengths within `constraints` (-1: no bound).
        The innermost counts most. Raises InstantiationError when there is none."""
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace):
            raise ConfigError(f"{name!r} is no split of this template", hint="define it first")
        if len(constraints) != space.num_output:
            raise ConfigError(f"knob {name!r} has {space.num_output} loops, got {len(constraints)} constraints")
        fitting = [e for e in space if all(b < 0 or s <= b for s, b in zip(e.size, constraints))]
        if not fitting:
            raise InstantiationError(f"no split of knob {name!r} keeps within {list(constraints)}")
        outer, *inner = max(fitting, key=lambda e: e.size[::-1]).size
        self[name] = SplitEntity([-(-space.product // math.prod(inner)) if outer < 0 else outer, *inner])


def numbers(entity: Entity) -> list[float]:
    """The value of a knob as numbers."""
    match entity:
        case SplitEntity(size):
            return [float(s) for s in size]
        case OtherOptionEntity(val):
            return [float(val)] if isinstance(val, int | float) else [float(zlib.crc32(repr(val).encode()) % 1024)]
        case _:
            data = entity.to_json()[1]
            return [float(d) if isinstance(d, int) else float(_ANNOTATION_CODE.get(d, -1)) for d in data]


_ANNOTATION_CODE = {name: at for at, name in enumerate(("none", "unroll", "vec", "parallel", "locate_cache"))}


def _unknown(name: str, known: Mapping[str, Any]) -> ConfigError:
    return ConfigError(f"the config has no knob {name!r}", hint=f"its knobs are {', '.join(known) or 'none'}")
