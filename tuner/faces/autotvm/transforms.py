"""The choices of one knob.

How an axis may be split, axes ordered or annotated, or which values an option may take.

The order of the choices is part of the format: a config's index counts through them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tuner.faces.autotvm.axes import Axis, VirtualAxis
from tuner.faces.autotvm.entities import AnnotateEntity, Entity, OtherOptionEntity, ReorderEntity, SplitEntity
from tuner.faces.autotvm.errors import ConfigError

E = TypeVar("E", bound=Entity)


class TransformSpace(Generic[E]):
    """The choices of one knob, in order. `num_output` loops come out of it."""

    def __init__(self, entities: Sequence[E], num_output: int) -> None:
        self.entities = list(entities)
        self.num_output = num_output

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> E:
        return self.entities[index]

    def __iter__(self) -> Iterator[E]:
        return iter(self.entities)

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str = "", **kwargs: Any) -> int:
        """Return how many loops come out of the loops that go in: as many, but of a split."""
        return len(axes)

    @property
    def axes(self) -> list[Axis]:
        """The loops that come out."""
        return [Axis(self, i) for i in range(self.num_output)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} choices)"


# -------------------------------------------------------------------------------------- split


class SplitSpace(TransformSpace[SplitEntity]):
    """The ways to split an axis of length `product` in `num_outputs` loops.

    Policies: `factors` (lengths that divide it), `power2` (powers of two), `verbose` (both), `candidate` (those of
    `candidate`, lists of lengths). A split that leaves a tail is in the space unless `no_tail`, which the factors
    imply. No length is above `max_factor`; `filter(entity)` says which splits to keep.
    """

    def __init__(
        self, axis: VirtualAxis, policy: str = "factors", num_outputs: int = 2, max_factor: int = 1 << 31,
        filter: Callable[[SplitEntity], bool] | None = None, candidate: Sequence[Sequence[int]] | None = None,
        no_tail: bool | None = None,
    ) -> None:  # fmt: skip
        self.product = axis.length
        if num_outputs < 1:
            raise ConfigError(f"a split makes at least one loop, got num_outputs={num_outputs}")
        if policy == "candidate":
            found = _split_candidates(candidate, num_outputs)
        else:
            if candidate is not None:
                raise ConfigError("a split with candidate= has policy='candidate'")
            factors = [f for f in split_lengths(axis.length, policy) if f <= max_factor]
            whole = policy == "factors" if no_tail is None else no_tail
            inner = _fitting(factors, num_outputs - 1, axis.length, whole)
            found = [SplitEntity([-1, *reversed(lengths)]) for lengths in inner]
        super().__init__([e for e in found if filter is None or filter(e)], num_outputs)

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str = "", **kwargs: Any) -> int:
        """Return how many loops come out of a split: the `num_outputs` that it is given."""
        return int(kwargs.get("num_outputs", 2))


def _split_candidates(candidate: Sequence[Sequence[int]] | None, num_outputs: int) -> list[SplitEntity]:
    if not candidate:
        raise ConfigError("a split with policy='candidate' needs candidate=, lists of lengths")
    found = [SplitEntity(c) for c in candidate]
    for entity in found:
        if len(entity.size) != num_outputs or any(s < 1 for s in entity.size[1:]):
            raise ConfigError(f"{entity} is no split in {num_outputs} loops; only its first length may be -1")
    return found


def split_lengths(length: int, policy: str) -> list[int]:
    """The lengths that a policy offers for the inner loop of a split, in ascending order."""
    divisors = {d for d in range(1, int(length**0.5) + 1) if length % d == 0}
    divisors |= {length // d for d in divisors}
    powers = {1 << bit for bit in range(length.bit_length())}
    match policy:
        case "factors":
            return sorted(divisors)
        case "power2":
            return sorted(powers)
        case "verbose":
            return sorted(divisors | powers)
    raise _unknown("split", policy, ("factors", "power2", "verbose", "candidate"))


def _fitting(factors: list[int], count: int, length: int, whole: bool) -> Iterator[tuple[int, ...]]:
    """Tuples of `count` factors whose product fits in (or, `whole`, divides) `length`.
    The innermost loop's comes first."""
    if count == 0:
        yield ()
        return

    def extend(chosen: tuple[int, ...], product: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) == count:
            if length % product == 0 or not whole:
                yield chosen
            return
        for factor in factors:
            if product * factor <= length:
                yield from extend((*chosen, factor), product * factor)

    yield from extend((), 1)


# ------------------------------------------------------------------------------------ reorder


class ReorderSpace(TransformSpace[ReorderEntity]):
    """The orders of `axes`.
    Policies: `identity`, `all`, `candidate` (those of `candidate`, lists of the axes), and `interleave`: every order
    that keeps the order within each of the lists in `spatial` and `reduce`."""

    def __init__(
        self, axes: Sequence[Any], policy: str = "all", candidate: Sequence[Sequence[Any]] | None = None,
        spatial: Sequence[Sequence[Any]] = (), reduce: Sequence[Sequence[Any]] = (),
    ) -> None:  # fmt: skip
        def place(axis: Any) -> int:
            at = next((i for i, known in enumerate(axes) if known is axis or _same_loop(known, axis)), None)
            if at is None:
                raise ConfigError(f"{axis!r} is none of the axes to reorder")
            return at

        match policy:
            case "identity":
                orders = [list(range(len(axes)))]
            case "all":
                orders = [list(p) for p in itertools.permutations(range(len(axes)))]
            case "interleave":
                chains = [[place(a) for a in chain] for chain in (*spatial, *reduce)]
                orders = list(_merges(chains))
            case "candidate" if candidate:
                orders = [[place(a) for a in order] for order in candidate]
            case "candidate":
                raise ConfigError("a reorder with policy='candidate' needs candidate=, lists of the axes")
            case _:
                raise _unknown("reorder", policy, ("all", "candidate", "identity", "interleave"))
        for order in orders:
            if sorted(order) != list(range(len(axes))):
                raise ConfigError(f"an order must hold each of the {len(axes)} axes once")
        super().__init__([ReorderEntity(order) for order in orders], len(axes))


def _same_loop(known: Any, axis: Any) -> bool:
    return isinstance(known, Axis) and isinstance(axis, Axis) and known == axis


def _merges(chains: list[list[int]]) -> Iterator[list[int]]:
    """Every merge of the chains that keeps the order within each."""
    if not any(chains):
        yield []
    for at, chain in enumerate(chains):
        if chain:
            rest = [*chains[:at], chain[1:], *chains[at + 1 :]]
            for merged in _merges(rest):
                yield [chain[0], *merged]


# ----------------------------------------------------------------------------------- annotate


class AnnotateSpace(TransformSpace[AnnotateEntity]):
    """Annotations of `axes`.
    Policies: `unroll`, `vec` (the innermost) and `none` leave no choice; `try_unroll`, `try_vec` and
    `try_unroll_vec` choose for each axis, with one vectorised at most. `bind_gpu` binds the innermost to a block's
    threads and the others to blocks, `bind_gpu_virtual` three axes, with virtual threads between. `parallel` runs one
    of them, or none, in parallel; `locate_cache` picks the `num_anchor` axes at which caches are computed;
    `candidate` has lists of annotations."""

    def __init__(
        self,
        axes: Sequence[Any],
        policy: str = "none",
        candidate: Sequence[Sequence[str]] | None = None,
        num_anchor: int = 1,
    ) -> None:
        count = len(axes)
        head = ["none"] * (count - 1)
        found: list[list[str]]
        match policy:
            case "none" | "unroll":
                found = [[policy] * count]
            case "vec" | "vectorize":
                found = [[*head, "vec"]]
            case "try_unroll":
                found = [list(a) for a in itertools.product(("none", "unroll"), repeat=count)]
            case "try_vec" | "try_vectorize":
                found = _with_one_vector(("none", "vec"), count)
            case "try_unroll_vec":
                found = _with_one_vector(("none", "unroll", "vec"), count)
            case "bind_gpu" if count > 1:
                found = [["fuse"] * (count - 2) + ["blockIdx.x", "threadIdx.x"]]
            case "bind_gpu_virtual" if count == 3:
                found = [["blockIdx.x", "vthread", "threadIdx.x"]]
            case "parallel":
                found = [["none"] * count, *_some_of(count, 1, "parallel")]
            case "locate_cache":
                found = _some_of(count, num_anchor, "locate_cache")
            case "candidate" if candidate:
                found = [list(a) for a in candidate]
            case "candidate":
                raise ConfigError("an annotation with policy='candidate' needs candidate=, lists of annotations")
            case _:
                known = "none unroll vec try_unroll try_vec try_unroll_vec bind_gpu parallel locate_cache candidate"
                raise _unknown("annotation", policy, known.split())
        if any(len(a) != count for a in found):
            raise ConfigError(f"an annotation must say something of each of the {count} axes")
        super().__init__([AnnotateEntity(a) for a in found], count)


def _with_one_vector(choices: Sequence[str], count: int) -> list[list[str]]:
    """A choice for each axis, where one at most is vectorised."""
    return [list(anns) for anns in itertools.product(choices, repeat=count) if anns.count("vec") < 2]


def _some_of(count: int, chosen: int, annotation: str) -> list[list[str]]:
    """Every choice of `chosen` axes that have the annotation, where the others have none."""
    choices = itertools.combinations(range(count), chosen)
    return [[annotation if i in places else "none" for i in range(count)] for places in choices]


# -------------------------------------------------------------------------------------- knobs


class OtherOptionSpace(TransformSpace[OtherOptionEntity]):
    """A choice among values that JSON can hold."""

    def __init__(self, candidate: Sequence[Any]) -> None:
        super().__init__([OtherOptionEntity(value) for value in candidate], 0)


AnySpace = SplitSpace | ReorderSpace | AnnotateSpace | OtherOptionSpace


def _unknown(what: str, policy: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(f"no {what} policy is called {policy!r}", hint=f"known: {', '.join(known)}")
