"""Where a search space comes from.

Rules applied to every block, a function of yours, or several of these.

One of your own is a subclass of `SpaceGenerator` (also called `PySpaceGenerator`) with `generate_design_space`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import Schedule as FaceSchedule
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.schedule.core.schedule import BlockRV, Schedule
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.errors import TuningError, UnknownKindError
from tuner.faces.meta_schedule.record import entry
from tuner.faces.meta_schedule.spaces.mutator import Mutator
from tuner.faces.meta_schedule.spaces.postproc import Postproc
from tuner.faces.meta_schedule.spaces.schedule_rule import ScheduleRule
from tuner.space.generate import generate
from tuner.space.sketch import Sketch
from tuner.space.traced import traced

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.tune_context import TuneContext

_MOST_SPACES = 64


class SpaceGenerator(ABC):
    """The contract: schedules of a module with open decisions; the search fills them in."""

    SpaceGeneratorType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""
    ScheduleFnType: ClassVar[Any] = Any

    def __init__(
        self,
        sch_rules: Sequence[ScheduleRule] | str | None = "from-target",
        postprocs: Sequence[Postproc] | str | None = "from-target",
        mutator_probs: Mapping[Mutator, float] | str | None = "from-target",
    ) -> None:
        """Take each as a list (a mapping for the mutators), the name of a kind of target, or None for nothing."""
        self._rules, self._postprocs, self._mutators = sch_rules, postprocs, mutator_probs
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._target = context.target
        own = (given for given in (self._rules, self._postprocs) if given is not None and not isinstance(given, str))
        for part in (part for given in own for part in given):
            part._initialize_with_tune_context(context)

    @property
    def sch_rules(self) -> list[ScheduleRule]:
        """The rules, those of the target unless others were given."""
        if self._rules is None or isinstance(self._rules, str):
            self._rules = [] if self._rules is None else ScheduleRule.create(self._kind(self._rules))
        return list(self._rules)

    @sch_rules.setter
    def sch_rules(self, given: Sequence[ScheduleRule] | str | None) -> None:
        self._rules = given

    @property
    def postprocs(self) -> list[Postproc]:
        """The postprocessors, those of the target unless others were given."""
        if self._postprocs is None or isinstance(self._postprocs, str):
            self._postprocs = [] if self._postprocs is None else Postproc.create(self._kind(self._postprocs))
        return list(self._postprocs)

    @postprocs.setter
    def postprocs(self, given: Sequence[Postproc] | str | None) -> None:
        self._postprocs = given

    @property
    def mutator_probs(self) -> dict[Mutator, float]:
        """How a search varies decisions, and how often each way is taken."""
        if self._mutators is None or isinstance(self._mutators, str):
            self._mutators = {} if self._mutators is None else Mutator.create(self._kind(self._mutators))
        return dict(self._mutators)

    @mutator_probs.setter
    def mutator_probs(self, given: Mapping[Mutator, float] | str | None) -> None:
        self._mutators = given

    def _kind(self, given: str) -> str:
        if given != "from-target":
            return given
        return "llvm" if self._target is None else str(self._target.kind)

    @abstractmethod
    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The spaces of `mod`, a schedule with sampling steps each. Raises ScheduleError, TuningError."""

    def clone(self) -> SpaceGenerator:
        """A generator to use for another task."""
        return self

    def sketches(self, mod: IRModule) -> tuple[Sketch, ...]:
        """The spaces as the search takes them, each candidate finished by the postprocessors."""
        return self.sketches_of(mod, self.generate_design_space(mod))

    def sketches_of(self, mod: IRModule, spaces: Sequence[Schedule]) -> tuple[Sketch, ...]:
        """Return spaces that were made already as the search takes them."""
        func = entry(mod)
        names = [f"space{at}" for at in range(len(spaces))]
        return tuple(traced(name, func, s.trace.simplified(), self._finish) for name, s in zip(names, spaces))

    def _finish(self, sch: Schedule) -> bool:
        postprocs = self.postprocs
        if postprocs:
            sch.enter_postproc()
        return all(postproc.apply(sch) for postproc in postprocs)

    @staticmethod
    def create(kind: str | Callable[[Schedule], object] = "post-order-apply", **kwargs: object) -> SpaceGenerator:
        """The generator of a kind: "post-order-apply", "union", or a function that schedules."""
        if callable(kind):
            return ScheduleFn(kind, **kwargs)  # type: ignore[arg-type]
        match kind:
            case "post-order-apply":
                return PostOrderApply(**kwargs)  # type: ignore[arg-type]
            case "union":
                return SpaceGeneratorUnion(**kwargs)  # type: ignore[arg-type]
        raise UnknownKindError(f"no kind of space generator {kind!r}", hint="there are post-order-apply and union")


PySpaceGenerator = SpaceGenerator


class ScheduleFn(SpaceGenerator):
    """A function of yours that schedules: in place, or by returning a schedule or several."""

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Schedule | list[Schedule] | None],
        sch_rules: Sequence[ScheduleRule] | str | None = "from-target",
        postprocs: Sequence[Postproc] | str | None = "from-target",
        mutator_probs: Mapping[Mutator, float] | str | None = "from-target",
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self._sch_fn = sch_fn

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        sch: Schedule = FaceSchedule(mod, seed=0)
        made = self._sch_fn(sch)
        if made is None:
            return [sch]
        found = made if isinstance(made, list) else [made]
        if not all(isinstance(each, Schedule) for each in found):
            raise TuningError("a schedule function returns None, a schedule or a list of schedules")
        return found


class PostOrderApply(SpaceGenerator):
    """Applies every rule to every block, readers before what they read.

    With the rules of the target (none given), the spaces are those that `tunefarm tune` searches. Their register and
    cache tiles are chosen for the machine, not by the generic tiling that the rule `MultiLevelTiling` describes.
    """

    def __init__(
        self,
        f_block_filter: Callable[[n.Block], bool] | None = None,
        sch_rules: Sequence[ScheduleRule] | str | None = "from-target",
        postprocs: Sequence[Postproc] | str | None = "from-target",
        mutator_probs: Mapping[Mutator, float] | str | None = "from-target",
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self._filter = f_block_filter
        self._own = f_block_filter is None and sch_rules == "from-target" and postprocs == "from-target"

    def sketches(self, mod: IRModule) -> tuple[Sketch, ...]:
        if self._own and self._target is not None:
            return generate(entry(mod), self._target)
        return super().sketches(mod)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        spaces: list[Schedule] = [FaceSchedule(mod, seed=0)]
        for rule in self.sch_rules:
            spaces = [made for sch in spaces for made in self._apply(rule, sch)]
            if len(spaces) > _MOST_SPACES:
                raise TuningError(f"the rules make more than {_MOST_SPACES} spaces of the function")
        return spaces

    def _apply(self, rule: ScheduleRule, first: Schedule) -> list[Schedule]:
        """The rule on every block that is there before it begins."""
        ways = [first]
        for name in _block_names(first, self._filter):
            ways = [made for sch in ways for made in _on_block(rule, sch, name)]
        return ways


def _block_names(sch: Schedule, wanted: Callable[[n.Block], bool] | None) -> list[str]:
    blocks = [node for node in walk(sch.func.body) if isinstance(node, n.Block)]
    return [block.name_hint for block in reversed(blocks) if wanted is None or wanted(block)]


def _on_block(rule: ScheduleRule, sch: Schedule, name: str) -> list[Schedule]:
    try:
        block: BlockRV = sch.get_block(name)
    except ScheduleError:  # inlined by then
        return [sch]
    return rule.apply(sch, block)


class SpaceGeneratorUnion(SpaceGenerator):
    """The spaces of several generators."""

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: Sequence[ScheduleRule] | str | None = "from-target",
        postprocs: Sequence[Postproc] | str | None = "from-target",
        mutator_probs: Mapping[Mutator, float] | str | None = "from-target",
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = list(space_generators)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        for generator in self.space_generators:
            generator._initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        return [sch for generator in self.space_generators for sch in generator.generate_design_space(mod)]
