"""Make a rule that picks for any size from the times of a portfolio at some sizes. Pure.

Measured sizes have their own fastest config. For the others a small tree of tests is grown over the sizes and values
derived from them: their product, and what tiles of 8 to 64 leave over. Trees of several depths, with and without the
derived values, are compared on held-out sizes; the simplest of the best is taken. Each measured size counts alike
there, however often it is asked for, because those calls do not come to the tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import index

import numpy as np
import numpy.typing as npt

from compiler.extents import MAX_CHARACTERS, parse_extent
from compiler.size_rule import Size, SizeRule, SizeTest, Tree, walk
from tuner.families.portfolio import Portfolio, TimeTable
from tuner.families.sizes import FamilyError, SizeList

FAR = 2.0
"""A size further than this many doublings from all measured ones is not known to be like them."""
GENERAL = -1
"""The pick for the kernel that needs no config."""
_TAILS = (8, 16, 32, 64)
_DEPTHS = (0, 1, 2, 3, 4)
_LEAST_GAIN = 1e-3
"""Of a split, in the logarithm of the time at the sizes it parts; less is noise."""
_LEAST_SIZES = 3
"""On either side of a test of a tail: of fewer sizes some tail parts any two configs."""
_UNMEASURED = 2.0
"""How many times slower than the best a member is taken to be at a size where it was not measured."""
_SIMPLER = 1.005
"""A simpler tree is taken whose held-out loss is within this factor of the best's."""

Costs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Dispatch:
    """`rule` picks places in `members` of the portfolio, or GENERAL.
    `held_out` is how much slower its picks were than the portfolio's best at sizes that were held out of its making
    (geometric mean); nan with fewer than 3 sizes. `errors` has that of each measured size."""

    rule: SizeRule
    held_out: float
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Explanation:
    """The config for a size and why. `sure`: "measured", "near" measured sizes, or "unknown"."""

    size: Size
    pick: int
    sure: str
    reasons: tuple[str, ...]


def make_dispatch(sizes: SizeList, timings: TimeTable, portfolio: Portfolio) -> Dispatch:
    """The rule for a portfolio, from the times of its members."""
    members = portfolio.members
    places = {member: place for place, member in enumerate(members)}
    known = {
        size: GENERAL if pick is None else places[pick] for size, pick in zip(sizes.sizes, portfolio.picks, strict=True)
    }
    served = [at for at, pick in enumerate(portfolio.picks) if pick is not None]
    if not served:
        return Dispatch(SizeRule(sizes.symbols, known, GENERAL), math.nan, ())
    table = _Table.of(sizes, timings.seconds[list(members)], served)
    options = [(depth, derived) for depth in _DEPTHS for derived in (False, True) if depth or not derived]
    if len(served) < 3:
        depth, derived = len(served) - 1, False
        errors: tuple[float, ...] = ()
        held_out = math.nan
    else:
        scores = {option: table.held_out(*option) for option in options}
        losses = {option: float(np.mean(score)) for option, score in scores.items()}
        enough = min(losses.values()) + math.log(_SIMPLER)
        depth, derived = next(option for option in options if losses[option] <= enough)
        errors = tuple(float(e) for e in np.exp(scores[depth, derived]))
        held_out = math.exp(losses[depth, derived])
    return Dispatch(SizeRule(sizes.symbols, known, table.grow(table.all, depth, derived)), held_out, errors)


def explain(dispatch: Dispatch, size: Sequence[int], names: Sequence[str]) -> Explanation:
    """Say which kernel a size gets, why, and how sure that is. `names` are those of the members.

    Raises FamilyError for a size of the wrong length, below 0, or of something else than whole numbers.
    """
    try:
        rule, asked = dispatch.rule, tuple(map(index, size))
    except TypeError:
        raise FamilyError(f"a size is made of whole numbers, not {tuple(size)}") from None
    if len(asked) != len(rule.symbols):
        raise FamilyError(f"a size has {len(rule.symbols)} numbers for {', '.join(rule.symbols)}, got {asked}")
    if min(asked) < 0:
        raise FamilyError(f"a size is not negative: {', '.join(map(str, asked))}")
    pick = rule.pick(asked)
    what = "the general kernel" if pick == GENERAL else f"config {names[pick]}"
    if asked in rule.known:
        why = "no config serves it" if pick == GENERAL else "it is the fastest of the portfolio there"
        return Explanation(asked, pick, "measured", (f"{what}: this size was measured, and {why}",))
    near, away = nearest_size(rule.known, asked)
    here = ", ".join(f"{symbol}={extent}" for symbol, extent in zip(rule.symbols, near))
    path = walk(rule.tree, dict(zip(rule.symbols, asked)))[1]
    reasons = [f"{what}: {' and '.join(path) if path else 'it serves all sizes best'}"]
    reasons.append(f"the nearest measured size is {here}, {away:.2f} doublings away")
    if not math.isnan(dispatch.held_out):
        lost = 100 * (dispatch.held_out - 1)
        reasons.append(f"at sizes held out of its making the rule lost {lost:.1f} % (geometric mean)")
    sure = "near" if away <= FAR else "unknown"
    if sure == "unknown":
        reasons.append("nothing of this order was measured, so the pick is a guess")
    return Explanation(asked, pick, sure, tuple(reasons))


def rule_lines(rule: SizeRule, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the tests of the rule for a size that was not measured, and the config that it picks then.
    They go from low to high."""

    def lines(tree: Tree, limits: dict[str, int]) -> Iterator[tuple[str, str]]:
        if isinstance(tree, SizeTest):  # a test below another of the same value is the narrower one
            yield from lines(tree.low, {**limits, f"{tree.value} <=": tree.limit})
            yield from lines(tree.high, {**limits, f"{tree.value} >": tree.limit})
        else:
            tests = " and ".join(f"{test} {limit}" for test, limit in limits.items())
            yield tests or "any", "the general kernel" if tree == GENERAL else names[tree]

    return tuple(lines(rule.tree, {}))


def nearest_size(known: Mapping[Size, int], size: Size) -> tuple[Size, float]:
    """The measured size nearest to `size`, and how many doublings it is away."""
    return min(((other, doublings(other, size)) for other in known), key=lambda found: found[1])


def doublings(a: Size, b: Size) -> float:
    """How many doublings or halvings lie between sizes."""
    return math.sqrt(sum(math.log2(max(1, x) / max(1, y)) ** 2 for x, y in zip(a, b, strict=True)))


# ------------------------------------------------------------------------------ growing trees


def _values(symbols: Sequence[str], derived: bool) -> list[str]:
    if not derived:
        return list(symbols)
    product = "*".join(symbols)
    products = [product] if len(symbols) > 1 and len(product) <= MAX_CHARACTERS else []
    return [*symbols, *products, *(f"{symbol} % {tail}" for symbol in symbols for tail in _TAILS)]


@dataclass(frozen=True)
class _Table:
    """`losses` are the logarithms of the members' times over the best of them, by member and size."""

    symbols: tuple[str, ...]
    sizes: tuple[Size, ...]
    losses: Costs

    @staticmethod
    def of(sizes: SizeList, seconds: Costs, served: Sequence[int]) -> _Table:
        own = seconds[:, list(served)]
        best = np.nanmin(own, axis=0)
        losses = np.log(np.where(np.isnan(own), _UNMEASURED, own / best))
        return _Table(sizes.symbols, tuple(sizes.sizes[at] for at in served), losses)

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(range(len(self.sizes)))

    def held_out(self, depth: int, derived: bool) -> Costs:
        """For each size the loss there of the tree that is grown without it."""
        found = []
        for out in self.all:
            tree = self.grow(tuple(at for at in self.all if at != out), depth, derived)
            pick, _ = walk(tree, dict(zip(self.symbols, self.sizes[out])))
            found.append(float(self.losses[pick, out]))
        return np.array(found)

    def grow(self, rows: tuple[int, ...], depth: int, derived: bool) -> Tree:
        """The tree that loses least at the sizes `rows`, split by split."""
        pick, loss = self._leaf(rows)
        if depth == 0 or len(rows) < 2:
            return pick
        best: tuple[float, str, int, tuple[int, ...], tuple[int, ...]] | None = None
        for value in _values(self.symbols, derived):
            here = {row: _value(value, self.symbols, self.sizes[row]) for row in rows}
            for limit in _limits(sorted(set(here.values())), value in self.symbols):
                low = tuple(row for row in rows if here[row] <= limit)
                high = tuple(row for row in rows if here[row] > limit)
                if "%" in value and min(len(low), len(high)) < _LEAST_SIZES:
                    continue
                parted = self._leaf(low)[1] + self._leaf(high)[1]
                if best is None or parted < best[0] - 1e-12:
                    best = parted, value, limit, low, high
        if best is None or loss - best[0] < _LEAST_GAIN * len(rows):
            return pick
        _, value, limit, low, high = best
        made = self.grow(low, depth - 1, derived), self.grow(high, depth - 1, derived)
        return made[0] if made[0] == made[1] else SizeTest(value, limit, *made)

    def _leaf(self, rows: tuple[int, ...]) -> tuple[int, float]:
        """The member that loses least at `rows` and was measured at all of them where one was."""
        sums = self.losses[:, list(rows)].sum(axis=1)
        pick = int(sums.argmin())
        return pick, float(sums[pick])


@lru_cache(maxsize=65536)
def _value(text: str, symbols: tuple[str, ...], size: Size) -> int:
    return parse_extent(text).value(dict(zip(symbols, size)))


def _limits(values: Sequence[int], is_size: bool) -> list[int]:
    """Where to split values.
    Two sizes are split at their geometric mean, other values at the lower one."""
    if is_size:
        return [max(low, min(high - 1, math.isqrt(low * high))) for low, high in pairwise(values)]
    return list(values[:-1])
