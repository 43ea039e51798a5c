"""Families as a command line, a TOML or a Python file asks for them, and again when a run is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.size_rule import Size
from compiler.target.target import Target
from tuner.engine.options import RunOptions
from tuner.engine.plan import Knowledge
from tuner.engine.queued_runs import QueuedFamily
from tuner.families.family import AnySpec, Family, FamilySpec, spec_from_json
from tuner.families.plan import PORTFOLIO, FamilySearch, family_search, shared
from tuner.families.sizes import MOST_SIZES, FamilyError, SizeList, parse_shapes, parse_traffic
from tuner.kernels.kernel import Kernel, kernel_search


@dataclass(frozen=True)
class KernelFamily:
    """A kernel of your own at many sizes: `at` gives the kernel for sizes by name, `{"N": 4096}`.
    A config has to mean the same at each: the spaces have the same parameters, and the sizes may be parameters of one
    value."""

    name: str
    at: Callable[[Mapping[str, int]], Kernel]
    sizes: SizeList
    portfolio: int = PORTFOLIO

    def kernel(self, size: Size) -> Kernel:
        """The kernel at one size."""
        return self.at(dict(zip(self.sizes.symbols, size, strict=True)))


@dataclass(frozen=True)
class FamilyItem:
    """A family to tune, up to `portfolio` configs of it to choose.
    `record` is what a run's options keep of it."""

    what: AnySpec | KernelFamily
    sizes: SizeList
    portfolio: int
    record: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.portfolio < 1:
            raise FamilyError(f"a portfolio has at least 1 config, not {self.portfolio}", hint="--portfolio 3")

    def search(self, target: str, options: RunOptions, knowledge: Knowledge | None = None) -> FamilySearch:
        """The engine's tasks for it, one a size."""
        if isinstance(self.what, KernelFamily):
            return _kernel_search(self.what, self.sizes, self.portfolio, self.record["family"], target, options)
        return family_search(Family(self.what, self.sizes), target, options, self.portfolio, knowledge)


def family_item(spec: AnySpec, sizes: SizeList, portfolio: int = PORTFOLIO) -> FamilyItem:
    """A family of a named workload, or of a graph's function, to tune.
    Raises FamilyError where its sizes do not fit."""
    Family(spec, sizes)
    return FamilyItem(spec, sizes, portfolio, family_record(spec.to_json(), sizes, portfolio))


@dataclass(frozen=True)
class AskedSizes:
    """The flags for the sizes of all families of a command line, and how many configs each may have."""

    sizes: SizeList
    portfolio: int = PORTFOLIO

    def item(self, spec: AnySpec) -> FamilyItem:
        """A family at its own of the sizes. Raises FamilyError where there are none for one of its symbols."""
        return family_item(spec, self.sizes.of(spec.symbols), self.portfolio)


def asked_sizes(shapes: Sequence[str], traffic: str | None, portfolio: int | None) -> AskedSizes | None:
    """The sizes that flags name; None for none. Raises FamilyError."""
    if not shapes:
        return None
    sizes = weighed(parse_shapes(shapes), None if traffic is None else Path(traffic))
    return AskedSizes(sizes, PORTFOLIO if portfolio is None else portfolio)


def family_record(what: Mapping[str, Any], sizes: SizeList, portfolio: int) -> dict[str, Any]:
    """Return what a run's options keep of a family."""
    return {"family": dict(what), "sizes": sizes.to_json(), "portfolio": portfolio}


def recorded_family(record: Mapping[str, Any]) -> FamilyItem:
    """The family of named workloads, or of a graph's function, that a run's options keep.
    Raises FamilyError."""
    return family_item(spec_from_json(record["family"]), SizeList.from_json(record["sizes"]), int(record["portfolio"]))


def asked_families(
    words: Iterable[str], shapes: Sequence[str], traffic: str | None, portfolio: int | None, models: bool = False
) -> tuple[FamilyItem, ...]:
    """The families of named workloads that words of a command line and its flags ask for.

    Raises FamilyError. `models`: the flags may be for models.
    """
    specs = [FamilySpec.parse(word) for word in words]
    if not specs:
        if not models and (shapes or traffic or portfolio is not None):
            flag = "--shapes" if shapes else "--traffic" if traffic else "--portfolio"
            raise FamilyError(f"{flag} goes with a workload that has a symbol", hint="for example dense:M,3072,768")
        return ()
    asked = asked_sizes(shapes, traffic, portfolio)
    if asked is None:
        raise FamilyError(f"{specs[0]} has no sizes to be tuned for", hint=f"--shapes {specs[0].symbols[0]}=1,16,128")
    return tuple(family_item(spec, asked.sizes, asked.portfolio) for spec in specs)


def queued_families(
    words: Iterable[str], shapes: Sequence[str], traffic: str, portfolio: int | None, target: str
) -> tuple[QueuedFamily, ...]:
    """Return the families that a client asks a service to tune.

    `traffic` is the text of a file of counts, not its name. Raises FamilyError.
    """
    specs = [FamilySpec.parse(word) for word in words]
    asked = asked_families(map(str, specs), shapes, None, portfolio)
    if (count := sum(len(item.sizes.sizes) for item in asked)) > MOST_SIZES:
        raise FamilyError(f"{count} sizes are more than the {MOST_SIZES} of all families that a run may have")
    if traffic and not asked:
        raise FamilyError("traffic goes with a workload that has a symbol", hint="for example dense:M,3072,768")
    found = []
    for spec, item in zip(specs, asked, strict=True):
        sizes = item.sizes
        if traffic:
            sizes = sizes.with_traffic(parse_traffic(traffic, sizes.symbols))
        record = family_record(spec.to_json(), sizes, item.portfolio)
        found.append(QueuedFamily(str(spec), Family(spec, sizes).tasks(target), record))
    return tuple(found)


def weighed(sizes: SizeList, traffic: Path | None) -> SizeList:
    """The sizes, weighed by a file of counts if one is given. Raises FamilyError."""
    if traffic is None:
        return sizes
    try:
        text = traffic.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise FamilyError(f"the traffic in {traffic} can't be read: {why}") from None
    return sizes.with_traffic(parse_traffic(text, sizes.symbols, str(traffic)))


def _kernel_search(
    family: KernelFamily, sizes: SizeList, portfolio: int, what: Mapping[str, Any], target: str, options: RunOptions
) -> FamilySearch:
    resolved = Target(target).resolved()
    searches, spaces = [], []
    for at, size in enumerate(sizes.sizes):
        kernel = family.kernel(size)
        sketch = kernel.space.sketch(family.name)
        found = kernel_search(kernel, resolved, options.strategy, options.seed + at, sketch=sketch)
        searches.append(found)
        spaces.append([sketch])
    return shared(family.name, what, str(resolved), sizes, portfolio, searches, spaces, options.trials, exact=True)
