"""Looking at the spaces that rules make."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.faces.tir_schedule.schedule import Schedule as FaceSchedule
from compiler.faces.tir_schedule.trace import Trace
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.faces.meta_schedule.spaces.schedule_rule import ScheduleRule
from tuner.faces.meta_schedule.spaces.space_generator import PostOrderApply
from tuner.faces.meta_schedule.tune_context import TuneContext

__all__ = ["check_sketches", "generate_design_space", "get_rules", "print_sketches", "structural_equal_no_gs"]

Kinds = type | tuple[type, ...]
Decisions = Sequence[tuple[str, Sequence[int]]]


def get_rules(kind: str, types: Kinds) -> list[ScheduleRule]:
    """Return the rules of a kind of target that are of some types."""
    return [rule for rule in ScheduleRule.create(kind) if isinstance(rule, types)]


def structural_equal_no_gs(mod1: IRModule, mod2: IRModule) -> bool:
    """Whether two modules are equal, whatever their functions are called outside."""
    return structural_equal(_nameless(mod1), _nameless(mod2))


def generate_design_space(
    kind: str,
    mod: IRModule | PrimFunc,
    target: Target | str,
    types: Kinds | None,
    sch_rules: list[ScheduleRule] | None = None,
) -> list[Schedule]:
    """Return the spaces of `mod` that rules make.
    The rules are those given, or those of a kind that are of some types."""
    if sch_rules is None:
        sch_rules = get_rules(kind, (ScheduleRule,) if types is None else types)
    generator = PostOrderApply(sch_rules=sch_rules, postprocs=[], mutator_probs={})
    return TuneContext(mod, target=target, space_generator=generator).generate_design_space()


def print_sketches(sketches: Sequence[Schedule]) -> None:
    """Print each schedule's module, and the trace and decisions that make it."""
    for number, sch in enumerate(sketches):
        print(f"# sketch {number}\n{sch.mod.script()}\n{sch.trace}")


def check_sketches(
    mod: IRModule | PrimFunc, sketches: Sequence[Schedule], expected_mods: Sequence[IRModule | PrimFunc],
    expected_decisions: Sequence[Decisions], *, debug_mask: object = "all",
) -> None:  # fmt: skip
    """Check that the spaces with these decisions are these modules, in any order. Raises AssertionError."""
    if not len(sketches) == len(expected_mods) == len(expected_decisions):
        raise AssertionError(f"{len(sketches)} spaces, {len(expected_mods)} modules were expected")
    left = list(sketches)
    for expected, decisions in zip(expected_mods, expected_decisions):
        expected = IRModule({"main": expected}) if isinstance(expected, PrimFunc) else expected
        found = next((sch for sch in left if _is(mod, sch, expected, decisions)), None)
        if found is None:
            raise AssertionError(f"no space with the decisions {decisions} is\n{expected.script()}")
        left.remove(found)


def _is(mod: IRModule | PrimFunc, sch: Schedule, expected: IRModule, decisions: Decisions) -> bool:
    trace = Trace.of(sch.trace)
    sampled = [inst for inst in trace.insts if inst.kind.name.startswith("Sample")]
    if [inst.kind.name for inst in sampled] != [name for name, _ in decisions]:
        return False
    chosen = {inst: list(given) for inst, (_, given) in zip(sampled, decisions)}
    again = FaceSchedule(mod)
    Trace(trace.insts, chosen).apply_to_schedule(again, remove_postproc=False)
    return structural_equal_no_gs(again.mod, expected)


def _nameless(mod: IRModule) -> IRModule:
    functions = {name: func.without_attr("global_symbol") for name, func in mod.functions.items()}
    return mod.with_functions(functions)
