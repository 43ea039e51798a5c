"""From a function to its search space: a few sketches."""

from __future__ import annotations

from compiler.dtype import parse_dtype
from compiler.schedule.schedule import Schedule
from compiler.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.errors import TuningError
from tuner.space.analysis import BlockInfo, blocks_of, consumers, is_pointwise
from tuner.space.contraction import Hardware, Judge, Roles, Shape, assign_roles, packable, tile
from tuner.space.elementwise import inline_chains, spread
from tuner.space.recorder import Recorder
from tuner.space.sketch import Sketch, Values


def generate(func: PrimFunc, target: Target) -> tuple[Sketch, ...]:
    """The sketches of `func` on `target`.

    Each contraction (a reduction of a product) gets a register tile and cache panels; other blocks are inlined
    or spread over threads and vectors. Raises TuningError when the function has no block to schedule.
    """
    blocks = blocks_of(func)
    if not blocks:
        raise TuningError(
            "the function has no block with constant extents to schedule",
            hint="give symbolic dimensions a value before tuning",
        )
    main = max((b for b in blocks if b.contraction), key=_points, default=None)
    roles = None if main is None else assign_roles(main)
    if main is None or roles is None:
        return (_plain(func, target),)
    return tuple(_contraction(func, target, main, roles, shape) for shape in _shapes(main, roles))


def _points(info: BlockInfo) -> int:
    total = 1
    for axis in info.axes:
        total *= axis.extent
    return total


def _shapes(info: BlockInfo, roles: Roles) -> list[Shape]:
    shapes = [Shape(rows_outer=True, pack=False), Shape(rows_outer=False, pack=False)]
    operand = roles.vector_operand
    if operand is not None and packable(info.inputs[operand], roles, info):
        shapes.append(Shape(rows_outer=False, pack=True))
    return shapes


def _plain(func: PrimFunc, target: Target) -> Sketch:
    sch = Schedule(func)
    recorder = Recorder(sch)
    inline_chains(sch)
    for info in blocks_of(sch.func):
        if info.injective:
            spread(sch, info, Hardware.of(target, info.output.buffer.dtype).lanes)
        else:
            loops = sch.get_loops(sch.get_block(info.name))
            if info.spatial and info.axes[0].extent > 1 and not info.axes[0].reduce:
                sch.parallel(loops[0])
    return Sketch("plain", sch.trace, tuple(recorder.decisions), _anything, _level)


def _contraction(func: PrimFunc, target: Target, main: BlockInfo, roles: Roles, shape: Shape) -> Sketch:
    sch = Schedule(func)
    recorder = Recorder(sch)
    inline_chains(sch)
    blocks = blocks_of(sch.func)
    dtype = main.output.buffer.dtype
    hardware = Hardware.of(target, dtype)
    current = next(b for b in blocks if b.name == main.name)
    epilogue = _epilogue(sch, current, blocks)
    for info in blocks:
        if info.injective and info.name != epilogue:
            spread(sch, info, hardware.lanes)
    tile(sch, recorder, current, roles, shape, hardware, epilogue)
    judge = Judge(main, roles, shape, hardware, parse_dtype(dtype).bytes)
    return Sketch(shape.name, sch.trace, tuple(recorder.decisions), judge.allowed, judge.draft)


def _epilogue(sch: Schedule, main: BlockInfo, blocks: tuple[BlockInfo, ...]) -> str | None:
    """The elementwise block that is the only reader of the contraction's result, if there is one."""
    if main.output.buffer in sch.func.buffer_map.values():
        return None
    users = consumers(main, blocks)
    if len(users) == 1 and is_pointwise(users[0], main.output.buffer):
        return users[0].name
    return None


def _anything(values: Values) -> bool:
    return True


def _level(values: Values) -> float:
    return 0.0
