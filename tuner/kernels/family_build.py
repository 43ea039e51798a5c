"""Kernels of your own at many sizes as one artifact.

Each is compiled for its size, and the rule picks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from compiler.artifact import ArgSpec, Artifact, EntryPoint, ImplicitArg
from compiler.driver.build import compile_artifact
from compiler.driver.dispatch import DispatchedEntry, dispatch_artifact
from compiler.extents import parse_extent
from compiler.size_rule import Size, SizeRule
from compiler.target.target import Target
from tuner.families.build import BuiltFamily, FamilyMaker, FunctionMaker, function_name
from tuner.families.configs import realised
from tuner.families.family import FamilySpec, family_key
from tuner.families.record import FamilyRecord
from tuner.families.rule import GENERAL
from tuner.families.sizes import FamilyError, SizeList
from tuner.kernels.family_jobs import FamilyItem, KernelFamily
from tuner.kernels.jobs import is_file, read_job
from tuner.kernels.kernel import CKernel, Kernel
from tuner.kernels.object_names import under_name
from tuner.kernels.space import Config, config_of


@dataclass(frozen=True)
class KernelMaker:
    """Makes kernels of a file's family. Sizes that were not tuned have none until `at` makes one."""

    item: FamilyItem

    @property
    def family(self) -> KernelFamily:
        assert isinstance(self.item.what, KernelFamily)
        return self.item.what

    @property
    def name(self) -> str:
        return self.family.name

    @property
    def symbols(self) -> tuple[str, ...]:
        return self.item.sizes.symbols

    @property
    def key(self) -> str:
        return family_key(self.item.record["family"])

    def built(self, record: FamilyRecord, name: str = "", more: Collection[Size] = ()) -> BuiltFamily:
        """The kernels of all measured sizes, and of `more` with the configs that the rule picks.

        Raises FamilyError where their shapes do not follow the sizes.
        """
        traces = zip(record.sizes.sizes, record.traces, strict=True)
        configs: dict[Size, Config | None] = {size: config_of(trace) for size, trace in traces if trace is not None}
        configs |= {size: self._picked(record, size) for size in more if size not in configs}
        artifact = self._dispatched(configs, record.sizes.symbols, Target(record.target), name)
        return BuiltFamily(artifact, frozenset())

    def untuned(self, target: Target, name: str = "", more: Collection[Size] = ()) -> Artifact:
        """The kernels of the sizes in the file and of `more`, as their references say."""
        return self._dispatched(dict.fromkeys((*self.item.sizes.sizes, *more)), self.symbols, target, name)

    def at(self, record: FamilyRecord | None, size: Size, target: Target, name: str) -> Artifact:
        symbols = self.symbols if record is None else record.sizes.symbols
        config = None if record is None else self._picked(record, size)
        return _compiled(self._kernel(symbols, size), config, target, name)

    def _picked(self, record: FamilyRecord, size: Size) -> Config | None:
        """The config that the rule picks for a size; None where that is the reference's."""
        pick = record.rule.pick(size)
        if pick == GENERAL:
            return None
        kernel = self._kernel(record.sizes.symbols, size)
        found = realised(record.configs[pick], [kernel.space.sketch(self.name)], exact=True)
        return None if found is None else config_of(found.trace_json)

    def plain(self, sizes: Mapping[str, int], target: Target) -> Artifact:
        return _compiled(self.family.at(sizes), None, target, "plain")

    def examples(self, record: FamilyRecord | None) -> SizeList:
        return self.item.sizes if record is None else record.sizes

    def _kernel(self, symbols: Sequence[str], size: Size) -> Kernel:
        return self.family.at(dict(zip(symbols, size, strict=True)))

    def _dispatched(
        self, configs: Mapping[Size, Config | None], symbols: Sequence[str], target: Target, name: str
    ) -> Artifact:
        symbol = name or function_name(self.name)
        kernels = [
            _compiled(self._kernel(symbols, size), config, target, f"{symbol}_{'_'.join(map(str, size))}")
            for size, config in configs.items()
        ]
        if not kernels:
            raise FamilyError(f"{self.name} has no size that a config serves")
        entries = dict(zip(configs, (kernel.entries[0] for kernel in kernels)))
        args = general_arguments(entries, symbols, self._entry_at(symbols, target))
        implicit = tuple(ImplicitArg(symbol, "int64", symbol) for symbol in symbols)
        known = {size: at for at, size in enumerate(configs)}
        entry = DispatchedEntry(symbol, args, kernels[0].entries[0].outputs, implicit)
        return dispatch_artifact(entry, SizeRule(tuple(symbols), known, GENERAL), kernels, target)

    def _entry_at(self, symbols: Sequence[str], target: Target) -> Callable[[Size], EntryPoint]:
        return lambda size: _compiled(self._kernel(symbols, size), None, target, "probe").entries[0]


def _compiled(kernel: Kernel, config: Config | None, target: Target, name: str) -> Artifact:
    """A kernel with a config, or its reference, under a name of its own."""
    if isinstance(kernel, CKernel):
        chosen = kernel.reference if config is None else config
        kernel.space.check(chosen)
        return under_name(kernel.source_code.compile(chosen, str(target)), name)
    if config is None:
        return compile_artifact(kernel.reference, target, name=name, keep=())
    kernel.space.check(config)
    found = kernel.make(dict(config))
    return found if isinstance(found, Artifact) else compile_artifact(found, target, name=name, keep=())


def general_arguments(
    entries: Mapping[Size, EntryPoint], symbols: Sequence[str], probe: Callable[[Size], EntryPoint]
) -> tuple[ArgSpec, ...]:
    """The arguments with extents over the symbols that are right at each size.

    `probe` gives the entry at another size; it is asked where one size alone is known. Raises FamilyError for an extent
    that follows no size in a simple way.
    """
    known = dict(entries)
    if len(known) == 1:
        [size] = known
        for axis in range(len(size)):
            other = tuple(extent * 2 if at == axis else extent for at, extent in enumerate(size))
            known[other] = probe(other)
    [first, *others] = known.values()
    if any(
        [(a.dtype, len(a.shape or ())) for a in e.args] != [(a.dtype, len(a.shape or ())) for a in first.args]
        for e in others
    ):
        raise FamilyError("the kernel has other arguments at other sizes")
    made = []
    for number, arg in enumerate(first.args):
        shape = []
        for axis in range(len(arg.shape or ())):
            seen = {size: int((entry.args[number].shape or ())[axis]) for size, entry in known.items()}
            extent = _extent(seen, symbols)
            if extent is None:
                raise FamilyError(
                    f"dimension {axis} of {arg.name} is {', '.join(map(str, dict.fromkeys(seen.values())))}: "
                    "it follows no size",
                    hint="an extent may be a size, a multiple of one, or a size and a number",
                )
            shape.append(extent)
        made.append(ArgSpec(arg.name, arg.dtype, tuple(shape)))
    names = {extent for arg in made for extent in arg.shape or () if isinstance(extent, str) and extent in symbols}
    if missing := [symbol for symbol in symbols if symbol not in names]:
        raise FamilyError(f"no array has {missing[0]} as an extent, so a call does not tell it")
    return tuple(made)


def _extent(seen: Mapping[Size, int], symbols: Sequence[str]) -> int | str | None:
    """A number, or text over the symbols, that is right for all sizes; None where nothing simple is."""
    values = set(seen.values())
    if len(values) == 1:
        return values.pop()
    size, value = max(seen.items())
    texts = list(symbols)
    for symbol, extent in zip(symbols, size):
        if extent and value % extent == 0:
            texts.append(f"{symbol}*{value // extent}")
        if value > extent:
            texts.append(f"{symbol} + {value - extent}")
        if value and extent % value == 0:
            texts.append(f"{symbol}//{extent // value}")
    texts += [f"{a}*{b}" for at, a in enumerate(symbols) for b in symbols[at:]]
    for text in texts:
        parsed = parse_extent(text)
        if all(parsed.value(dict(zip(symbols, size))) == value for size, value in seen.items()):
            return text
    return None


def maker_of(text: str) -> FamilyMaker:
    """The maker of a family's kernels.
    The family is named as "dense:M,3072,768", or in a file as "kernels.toml:scale".

    Raises FamilyError, WorkloadError, SpecError.
    """
    if not is_file(text):
        return FunctionMaker(FamilySpec.parse(text))
    job = read_job([text])
    if job.items or len(job.families) != 1:
        raise FamilyError(f"{text} is not one family", hint="name a kernel that has shapes: kernels.toml:scale")
    return maker_for(job.families[0])


def maker_for(item: FamilyItem) -> FamilyMaker:
    """The maker of the kernels of a family that is to be tuned or built."""
    return KernelMaker(item) if isinstance(item.what, KernelFamily) else FunctionMaker(item.what)
