"""The sizes that a family of workloads is tuned for, and how often each is asked for."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.extents import MAX_NAME, can_be_name
from compiler.size_rule import Size
from tuner.errors import TuningError

MOST_SIZES = 256
MOST_EXTENT = (1 << 31) - 1
_ROUNDED = 1e-12
"""How far shares of 1 may be from adding up to it."""
_EXAMPLE = "M=1,16,128, or H,W=56x56,28x28 for sizes that go together"


class FamilyError(TuningError, ValueError, kind="family"):
    """A family of workloads that makes no sense: its symbols, sizes or traffic contradict each other."""


@dataclass(frozen=True)
class SizeList:
    """`sizes` are values of the `symbols`, in their order.
    `weights` is the share of each in the traffic; they add up to 1. Raises FamilyError for no sizes, doubles, sizes
    below 1 and weights that do not fit."""

    symbols: tuple[str, ...]
    sizes: tuple[Size, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.symbols or not self.sizes:
            raise FamilyError("a family needs a symbol and sizes for it", hint=_EXAMPLE)
        check_names(self.symbols)
        if double := _double(self.symbols):
            raise FamilyError(f"{double} is given sizes twice", hint="name each symbol once")
        if len(self.sizes) > MOST_SIZES:
            raise FamilyError(f"{len(self.sizes)} sizes are more than the {MOST_SIZES} a family may have")
        for size in self.sizes:
            if len(size) != len(self.symbols):
                raise FamilyError(f"a size of {','.join(self.symbols)} has {len(self.symbols)} numbers, not {size}")
            if min(size) < 1:
                raise FamilyError(f"sizes are at least 1, not {self.text(size)}")
            if max(size) > MOST_EXTENT:
                raise FamilyError(f"a size is at most {MOST_EXTENT}, not {self.text(size)}")
        if double := _double(self.sizes):
            raise FamilyError(
                f"the size {self.text(double)} is there twice", hint="--traffic says how often each is used"
            )
        weights = self.weights or (1.0,) * len(self.sizes)
        if len(weights) != len(self.sizes):
            raise FamilyError(f"{len(self.sizes)} sizes have {len(weights)} weights")
        if not all(math.isfinite(w) and w >= 0 for w in weights) or not sum(weights) > 0:
            raise FamilyError("weights are not negative, and one of them is above 0")
        total = sum(weights)
        if abs(total - 1) < _ROUNDED:  # they were divided before: again, their last digits would change, and digests
            total = 1.0
        object.__setattr__(self, "weights", tuple(w / total for w in weights))

    def text(self, size: Size) -> str:
        """A size as people write it: "M=16" or "H=56, W=28"."""
        return ", ".join(f"{symbol}={extent}" for symbol, extent in zip(self.symbols, size))

    def share_text(self, at: int) -> str:
        """A size's share of the traffic as people read it: "37 %", "0.4 %"."""
        percent = 100 * self.weights[at]
        return f"{percent:.0f} %" if percent >= 1 or not percent else f"{percent:.1g} %"

    @property
    def is_weighted(self) -> bool:
        """Whether some sizes are asked for more often than others."""
        return max(self.weights) - min(self.weights) > _ROUNDED

    def with_traffic(self, traffic: Mapping[Size, float]) -> SizeList:
        """The same sizes, weighted by how often each was asked for.
        A size that was not gets the weight of one call, or a hundredth where counts are shares of 1. Raises
        FamilyError for traffic of unknown sizes, counts that are none, and traffic of no call at all."""
        if unknown := sorted(set(traffic) - set(self.sizes)):
            raise FamilyError(
                f"there is traffic for {self.text(unknown[0])}, which is none of the family's sizes",
                hint="add it to --shapes, or leave its row out",
            )
        if negative := [size for size, count in traffic.items() if not (math.isfinite(count) and count >= 0)]:
            raise FamilyError(f"the traffic of {self.text(negative[0])} is no count: {traffic[negative[0]]}")
        asked = [count for count in traffic.values() if count > 0]
        if not asked:
            raise FamilyError("the traffic has no call of any size", hint="give counts above 0, or no traffic at all")
        least = min(1.0, *asked) if sum(asked) > 1.001 else min(sum(asked) / 100, *asked)
        return SizeList(self.symbols, self.sizes, tuple(traffic.get(size) or least for size in self.sizes))

    def of(self, symbols: Sequence[str]) -> SizeList:
        """The sizes of some of the symbols, each once, with the traffic of all that have it.
        Raises FamilyError."""
        if missing := [symbol for symbol in symbols if symbol not in self.symbols]:
            raise FamilyError(f"there are no sizes for {missing[0]}", hint=f"--shapes {missing[0]}=1,16,128")
        places = [self.symbols.index(symbol) for symbol in symbols]
        found: dict[Size, float] = {}
        for size, weight in zip(self.sizes, self.weights, strict=True):
            own = tuple(size[place] for place in places)
            found[own] = found.get(own, 0.0) + weight
        return SizeList(tuple(symbols), tuple(found), tuple(found.values()))

    def to_json(self) -> dict[str, Any]:
        return {
            "symbols": list(self.symbols),
            "sizes": [list(size) for size in self.sizes],
            "weights": list(self.weights),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SizeList:
        """The inverse of `to_json`. Raises FamilyError."""
        try:
            sizes = tuple(tuple(int(extent) for extent in size) for size in data["sizes"])
            return SizeList(tuple(map(str, data["symbols"])), sizes, tuple(map(float, data.get("weights", ()))))
        except (KeyError, TypeError, ValueError) as error:
            raise FamilyError(f"these are no sizes of a family: {error}") from None


def check_names(symbols: Sequence[str]) -> None:
    """Raise FamilyError for a name that rules over sizes cannot have."""
    if wrong := [symbol for symbol in symbols if not can_be_name(symbol)]:
        raise FamilyError(
            f"a size cannot be called {wrong[0][:MAX_NAME]!r}",
            hint="a name has ASCII letters, digits and _, and is neither a word of Python nor min or max",
        )


def parse_shapes(texts: Sequence[str]) -> SizeList:
    """The sizes that texts such as "M=1,16,128" list; those of several texts are combined, each with each.

    "H,W=56x56,28x28" lists sizes that go together. Raises FamilyError.
    """
    parts = [_one(text) for text in texts]
    symbols = tuple(symbol for names, _ in parts for symbol in names)
    if double := _double(symbols):
        raise FamilyError(f"{double} is given sizes twice", hint="list all of a symbol's sizes in one place")
    if (count := math.prod(len(sizes) for _, sizes in parts)) > MOST_SIZES:
        raise FamilyError(f"{count} sizes are more than the {MOST_SIZES} a family may have")
    combined = itertools.product(*(sizes for _, sizes in parts))
    return SizeList(symbols, tuple(tuple(itertools.chain(*size)) for size in combined))


def _one(text: str) -> tuple[tuple[str, ...], list[Size]]:
    names, separator, listed = text.partition("=")
    symbols = tuple(name.strip() for name in names.split(","))
    if not separator or not all(symbols):
        raise FamilyError(f"{text!r} does not say which symbol has which sizes", hint=_EXAMPLE)
    check_names(symbols)
    sizes: list[Size] = []
    for word in listed.split(","):
        try:
            size = tuple(int(extent) for extent in word.split("x"))
        except ValueError:
            raise FamilyError(f"{word.strip()!r} in {text!r} is no whole number", hint=_EXAMPLE) from None
        if len(size) != len(symbols):
            raise FamilyError(f"{word.strip()!r} in {text!r} has {len(size)} numbers for {len(symbols)} symbols")
        sizes.append(size)
    return symbols, sizes


def parse_traffic(text: str, symbols: Sequence[str], where: str = "traffic") -> dict[Size, float]:
    """How often each size is asked for, from CSV: a column a symbol and one called "count".

    Rows of one size add up.

    Raises FamilyError naming the line.
    """
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    columns = [name.strip() for name in reader.fieldnames or ()]
    if sorted(columns) != sorted([*symbols, "count"]):
        raise FamilyError(
            f"{where} has the columns {', '.join(columns) or 'none'}", hint=f"it needs {', '.join(symbols)}, count"
        )
    reader.fieldnames = columns
    found: dict[Size, float] = {}
    for row in reader:
        try:
            size = tuple(int(row[symbol]) for symbol in symbols)
            count = float(row["count"])
        except (TypeError, ValueError):
            raise FamilyError(f"{where}, line {reader.line_num}: {list(row.values())} are no numbers") from None
        if len(row) > len(columns):  # what is too many has a key of its own
            raise FamilyError(f"{where}, line {reader.line_num} has more than {len(columns)} columns")
        found[size] = found.get(size, 0.0) + count
    return found


def _double(items: Sequence[Any]) -> Any:
    seen = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None
