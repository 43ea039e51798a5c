"""A schedule's view of its module, under Apache TVM's names.

Places of statements, and dependences of blocks.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.errors import ScheduleError
from compiler.ir.module import IRModule
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import Member, members_of
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core import schedule as core
from compiler.schedule.core.state import replaced
from compiler.tir import nodes as n

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ScheduleDebugMask(enum.IntEnum):
    """The checks after each step: here, that the functions are well formed, for each value but `NONE`."""

    NONE = 0
    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2
    ALL = 3


class DepKind(enum.IntEnum):
    """How one block waits for another: it reads what that wrote, and so on."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


class ScheduleState:
    """The module of a schedule, and where its blocks and loops stand.

    `mod` follows the steps of the schedule. The arguments are those of `Schedule`. Raises ScheduleError for functions
    that were lowered, IRError for what is no function or module.
    """

    def __init__(
        self, mod: n.PrimFunc | IRModule, *, debug_mask: str | int = "none", enable_check: bool = True
    ) -> None:
        self._schedule = core.Schedule(mod, debug_mask=debug_mask, enable_check=enable_check)
        self._is_own, self._mask = True, debug_mask
        self.debug_mask = int(
            ScheduleDebugMask.ALL if debug_mask == "all" else 0 if debug_mask == "none" else debug_mask
        )

    @classmethod
    def of(cls, schedule: core.Schedule) -> ScheduleState:
        """The state of a schedule, as it is and as it will be."""
        made = cls.__new__(cls)
        made._schedule, made.debug_mask, made._is_own = schedule, int(ScheduleDebugMask.NONE), False
        return made

    @property
    def mod(self) -> IRModule:
        """The module with the functions as scheduled so far."""
        return self._schedule.mod

    def get_sref(self, stmt: n.Block | n.For) -> StmtSRef | None:
        """The place of a block or loop of the module; None for one that it does not have (any more)."""
        key = stmt.name_hint if isinstance(stmt, n.Block) else stmt.loop_var
        for name in self._functions():
            place = StmtSRef(self, name, key)
            if place.stmt is stmt:
                return place
        return None

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The dependences between the blocks right inside a block.
        Raises ScheduleError for the place of a loop."""
        path = block_sref.path
        if path is None or not isinstance(path[-1], n.BlockRealize):
            raise ScheduleError("get_block_scope: it takes the place of a block")
        members = members_of(path)
        places = [StmtSRef(self, block_sref.func_name, m.name) for m in members]
        return BlockScope(tuple(_dependencies(places, members)))

    def replace(
        self,
        src_sref: StmtSRef,
        tgt_stmt: n.Block | n.BlockRealize | n.For,
        block_sref_reuse: Mapping[n.Block, n.Block] | None = None,
    ) -> None:
        """Put `tgt_stmt` in the place of a block or loop.
        Places of blocks that keep their names stay, so `block_sref_reuse` is ignored.

        Raises ScheduleError for the state of a schedule, for another kind of statement, and for a function that is no
        longer well formed.
        """
        if not self._is_own:
            raise ScheduleError(
                "replace: a schedule is the record of its steps, and a statement is no step",
                hint="take a state of its own: ScheduleState(schedule.mod)",
            )
        path = src_sref.path
        if path is None:
            raise ScheduleError("replace: the statement is not in the module any more")
        old, new = path[-1], tgt_stmt
        if isinstance(new, n.Block) and isinstance(old, n.BlockRealize):
            new = dataclasses.replace(old, block=new)
        wanted = (n.BlockRealize,) if isinstance(old, n.BlockRealize) else (n.For, n.BlockRealize)
        if not isinstance(new, wanted):
            kind = "block" if isinstance(old, n.BlockRealize) else "loop"
            raise ScheduleError(f"replace: a {type(tgt_stmt).__name__} cannot take the place of a {kind}")
        functions = dict(self.mod.functions)
        where = next(g for g in functions if g.name_hint == src_sref.func_name)
        functions[where] = replaced(self._functions()[src_sref.func_name], path, new)
        module = IRModule(functions, self.mod.attrs, self.mod.global_infos)
        self._schedule = core.Schedule(module, debug_mask=self._mask)

    def _functions(self) -> dict[str, n.PrimFunc]:
        return {g.name_hint: f for g, f in n.prim_funcs(self.mod).items()}

    def _path(self, func_name: str, key: n.Var | str) -> Path | None:
        func = self._functions()[func_name]
        return tree.find_block(func.body, key) if isinstance(key, str) else tree.find_loop(func.body, key)

    def get_sblock_scope(self, block_sref: StmtSRef) -> BlockScope:
        """`get_block_scope`, as newer versions of TVM call it."""
        return self.get_block_scope(block_sref)

    def is_of(self, other: ScheduleState) -> bool:
        """Whether both are the state of one schedule."""
        return self._schedule is other._schedule


@dataclass(frozen=True, eq=False)
class StmtSRef:
    """The place of a block or loop in a module that is scheduled.
    What stands there changes with the steps."""

    state: ScheduleState
    func_name: str
    key: n.Var | str  # the loop's variable, the block's name

    @property
    def path(self) -> Path | None:
        return self.state._path(self.func_name, self.key)

    @property
    def stmt(self) -> n.Block | n.For | None:
        """The block or loop that stands there now; None where a step took it away."""
        path = self.path
        return None if path is None else _statement(path)

    @property
    def parent(self) -> StmtSRef | None:
        """The place of the block or loop around it; None for the root block."""
        for node in reversed((self.path or ())[:-1]):
            if isinstance(node, n.BlockRealize):
                return StmtSRef(self.state, self.func_name, node.block.name_hint)
            if isinstance(node, n.For):
                return StmtSRef(self.state, self.func_name, node.loop_var)
        return None

    def same_as(self, other: object) -> bool:
        """Whether both are the same place."""
        return self == other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StmtSRef):
            return NotImplemented
        same = self.key is other.key if isinstance(self.key, n.Var) else self.key == other.key
        return same and self.func_name == other.func_name and self.state.is_of(other.state)

    def __hash__(self) -> int:
        return hash((self.func_name, self.key))


@dataclass(frozen=True)
class Dependency:
    """`dst` may not run before `src`; `kind` says why."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


@dataclass(frozen=True)
class BlockScope:
    """The dependences between the blocks right inside one block, in program order."""

    dependencies: tuple[Dependency, ...] = ()

    def get_deps_by_src(self, block: StmtSRef) -> list[Dependency]:
        """The blocks that depend on `block`."""
        return [d for d in self.dependencies if d.src == block]

    def get_deps_by_dst(self, block: StmtSRef) -> list[Dependency]:
        """The blocks that `block` depends on."""
        return [d for d in self.dependencies if d.dst == block]


class BlockDependenceInfo(ScheduleState):
    """The dependences between the blocks of a module, without a schedule of it."""

    def get_sref(self, block: n.Block | n.For) -> StmtSRef | None:
        """The place of a block of the module; None for one that it does not have."""
        return super().get_sref(block)


def _statement(path: Path) -> n.Block | n.For | None:
    match path[-1]:
        case n.BlockRealize(block=block):
            return block
        case n.For() as loop:
            return loop
    return None


def _dependencies(places: Sequence[StmtSRef], members: Sequence[Member]) -> list[Dependency]:
    """For each block, in order: who wrote what it reads or writes, and who read what it writes."""
    found: list[Dependency] = []
    for at, later in enumerate(members):
        reads = [r.buffer for r in later.block.reads]
        writes = [w.buffer for w in later.block.writes]
        for kind, mine, theirs in (
            (DepKind.RAW, reads, Member.writes),
            (DepKind.WAW, writes, Member.writes),
            (DepKind.WAR, writes, Member.reads),
        ):
            for earlier, place in zip(members[:at], places):
                if any(theirs(earlier, buffer) for buffer in mine):
                    found.append(Dependency(place, places[at], kind))
    return found
