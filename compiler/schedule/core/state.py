"""The state that a schedule step works on: functions, and the values of the trace's names in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.schedule.analysis import tree
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.rv import RV, BlockRV, ExprRV, LoopRV
from compiler.tir import nodes as n
from compiler.tir.nodes import Stmt

Value = n.PrimExpr | str | int  # of a LoopRV (its loop variable), of a BlockRV (its name), of an ExprRV


class Illegal(Exception):
    """A broken rule, raised inside a primitive.

    `step.apply` turns it into a ScheduleError that shows the loops. `where` is the loop or block to point at.
    """

    def __init__(self, rule: str, where: n.Var | str | None = None, hint: str | None = None) -> None:
        super().__init__(rule)
        self.rule = rule
        self.where = where
        self.hint = hint


class LostReference(Illegal):
    """A loop or block that the function does not have, or has no longer; becomes a LostReferenceError."""


@dataclass(frozen=True, slots=True)
class TraceState:
    """The functions of a module and their environment. Never changed: a step makes a new one.

    Blocks and loops stand in the function `main`, except those for which `homes` names another. `main` is None where
    there are several functions, none called "main".
    """

    functions: Mapping[str, n.PrimFunc]
    main: str | None
    env: Mapping[RV, Value] = field(default_factory=dict)
    homes: Mapping[RV, str] = field(default_factory=dict)

    @classmethod
    def of(cls, functions: Mapping[str, n.PrimFunc]) -> TraceState:
        """`functions` before any step."""
        only = next(iter(functions)) if len(functions) == 1 else None
        return cls(functions, "main" if "main" in functions else only)

    def home(self, rv: RV) -> str | None:
        """The name of the function that a block or loop stands in."""
        return self.homes.get(rv, self.main)

    def function(self, name: str | None) -> n.PrimFunc:
        """The function called `name`. Raises Illegal when there is none that can be scheduled."""
        found = None if name is None else self.functions.get(name)
        known = ", ".join(self.functions) or "none"
        if name is None:
            raise Illegal("which function? none is called main", hint=f"work_on one, or give func_name: {known}")
        if found is None:
            raise Illegal(f"there is no function {name[:60]!r}", hint=f"the functions are: {known}")
        if not isinstance(found.body, n.BlockRealize):
            raise Illegal(f"function {name!r} has no blocks: it was lowered, and cannot be scheduled any more")
        return found

    def value(self, rv: RV) -> Value:
        """Return what `rv` stands for. Raises Illegal when it is not known here."""
        found = self.env.get(rv)
        if found is None:
            what = {BlockRV: "block", LoopRV: "loop", ExprRV: "value"}[type(rv)]
            raise Illegal(f"{rv} is no {what} of this schedule")
        return found


@dataclass(frozen=True, slots=True)
class StepEffect:
    """The effect of a primitive: the new function, the values of its outputs, renamed blocks. `home` is
    the name of the function, once it is known."""

    func: n.PrimFunc
    outputs: tuple[Value, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    home: str = ""


def loop_path(func: n.PrimFunc, var: n.Var) -> Path:
    """The path to the loop over `var`. Raises LostReference when the function has no such loop any more."""
    path = tree.find_loop(func.body, var)
    if path is None:
        raise LostReference(f"loop {var.name!r} is gone: it was split, fused, or its block was moved or inlined")
    return path


def block_path(func: n.PrimFunc, name: str) -> Path:
    """The path to the block called `name`. Raises LostReference when there is none."""
    path = tree.find_block(func.body, name)
    if path is None:
        names = [_realize(p).block.name_hint for p in tree.block_paths(func.body)[1:]]
        raise LostReference(f"there is no block {name!r}", hint=f"the blocks are: {', '.join(names) or 'none'}")
    return path


def loop_at(path: Path) -> n.For:
    """The loop that a path from `loop_path` ends in."""
    loop = path[-1]
    assert isinstance(loop, n.For)
    return loop


def _realize(path: Path) -> n.BlockRealize:
    realize = path[-1]
    assert isinstance(realize, n.BlockRealize)
    return realize


realize_at = _realize


def replaced(func: n.PrimFunc, path: Path, new: Stmt | None) -> n.PrimFunc:
    """`func` with the last statement of `path` replaced (None: taken out)."""
    return func.with_body(tree.replace_at(path, new))
