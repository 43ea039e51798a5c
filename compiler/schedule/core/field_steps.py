"""The instructions of Apache TVM's traces, and the corresponding steps.

An instruction has inputs (results of earlier ones, numbers, lists) and attributes, both by position. `InstructionKind`
names those positions by the arguments of the schedule's method. So one row a primitive tells how its steps are written,
read, and spelled in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import ScheduleError
from compiler.schedule.core.field_maps import places_of, python_of_map
from compiler.schedule.core.rv import RV, BlockRV, ExprRV, LoopRV
from compiler.schedule.core.step import Decision, Input, Primitive, Step, check_step, get_primitive


class FieldTraceError(ScheduleError, ValueError, kind="field_trace"):
    """A trace of Apache TVM that cannot be carried out here, or one of ours that it cannot express."""


@dataclass(frozen=True, slots=True)
class InstructionKind:
    """The kind of an instruction.

    `inputs` and `attrs` name its parts. A last input "x*" takes all further ones, "x+" likewise but as a list in
    Python. "x[]" is one list, and "x|" one value or a list of several. `call` is their order in Python, where it
    differs.
    """

    name: str
    prim: str
    inputs: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()
    call: tuple[str, ...] = ()

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind called `name`. Raises FieldTraceError when there is none."""
        found = _BY_NAME.get(name.replace("SBlock", "Block"))
        if found is None:
            raise FieldTraceError(f"step {name[:60]} of the trace has no counterpart here")
        return found

    @property
    def is_pure(self) -> bool:
        """Whether it leaves the function unchanged, so that it can be dropped if its results are not used."""
        return self.name.startswith(("Get", "Sample"))

    def __str__(self) -> str:
        return self.name


_KINDS = [
    InstructionKind("SampleCategorical", "sample_categorical", (), ("candidates", "probs")),
    InstructionKind("SamplePerfectTile", "sample_perfect_tile", ("loop",), ("n", "max_innermost_factor")),
    InstructionKind(
        "SamplePartitionedTile", "sample_partitioned_tile", ("loop",), ("n", "partition_pos", "innerpart_factor")
    ),
    InstructionKind("SampleComputeLocation", "sample_compute_location", ("block",)),
    InstructionKind("GetBlock", "get_block", (), ("name", "func_name")),
    InstructionKind("GetLoops", "get_loops", ("block",)),
    InstructionKind("GetChildBlocks", "get_child_blocks", ("_block_or_loop",)),
    InstructionKind("GetProducers", "get_producers", ("block",)),
    InstructionKind("GetConsumers", "get_consumers", ("block",)),
    InstructionKind("GetOutputBlocks", "get_output_blocks", ("block",)),
    InstructionKind("Merge", "merge", ("_loops*",)),
    InstructionKind("Fuse", "fuse", ("_loops*",), ("preserve_unit_iters",)),
    InstructionKind("Split", "split", ("loop", "factors+"), ("preserve_unit_iters", "disable_predication")),
    InstructionKind("LoopPartition", "loop_partition", ("loop", "factors+"), ("preserve_unit_iters",)),
    InstructionKind("Reorder", "reorder", ("_loops*",)),
    InstructionKind("ReorderBlockIterVar", "reorder_block_iter_var", ("block", "new_order")),
    InstructionKind("AddUnitLoop", "add_unit_loop", ("block_or_loop",)),
    InstructionKind("Parallel", "parallel", ("loop",)),
    InstructionKind("Vectorize", "vectorize", ("loop",)),
    InstructionKind("Bind", "bind", ("loop",), ("thread_axis",)),
    InstructionKind("Unroll", "unroll", ("loop",)),
    InstructionKind(
        "CacheRead", "cache_read", ("block", "consumer_blocks[]"), ("read_buffer_index", "storage_scope"),
        ("block", "read_buffer_index", "storage_scope", "consumer_blocks[]"),
    ),
    InstructionKind(
        "CacheWrite", "cache_write", ("block", "consumer_blocks[]"), ("write_buffer_index", "storage_scope"),
        ("block", "write_buffer_index", "storage_scope", "consumer_blocks[]"),
    ),
    InstructionKind(
        "ReindexCacheRead", "reindex_cache_read", ("block", "index_map"), ("read_buffer_index", "storage_scope"),
        ("block", "read_buffer_index", "storage_scope", "index_map"),
    ),
    InstructionKind(
        "ReindexCacheWrite", "reindex_cache_write", ("block", "index_map"), ("write_buffer_index", "storage_scope"),
        ("block", "write_buffer_index", "storage_scope", "index_map"),
    ),
    InstructionKind("CacheInplace", "cache_inplace", ("block",), ("read_buffer_index", "storage_scope")),
    InstructionKind("CacheIndex", "cache_index", ("block",), ("storage_scope", "cse_thresh")),
    InstructionKind("ReIndex", "reindex", ("block",), ("buffer_index", "buffer_index_type")),
    InstructionKind("ReadAt", "read_at", ("loop", "block"), ("read_buffer_index", "storage_scope")),
    InstructionKind("WriteAt", "write_at", ("loop", "block"), ("write_buffer_index", "storage_scope")),
    InstructionKind("ComputeAt", "compute_at", ("block", "loop"), ("preserve_unit_loops", "index")),
    InstructionKind("ReverseComputeAt", "reverse_compute_at", ("block", "loop"), ("preserve_unit_loops", "index")),
    InstructionKind("ComputeInline", "compute_inline", ("block",)),
    InstructionKind("ReverseComputeInline", "reverse_compute_inline", ("block",)),
    InstructionKind("DecomposeReduction", "decompose_reduction", ("block", "loop")),
    InstructionKind("RFactor", "rfactor", ("loop",), ("factor_axis",)),
    InstructionKind("StorageAlign", "storage_align", ("block",), ("buffer_index", "axis", "factor", "offset")),
    InstructionKind("SetScope", "set_scope", ("block",), ("buffer_index", "storage_scope")),
    InstructionKind("UnsafeSetDType", "unsafe_set_dtype", ("block",), ("buffer_index", "dtype")),
    InstructionKind(
        "UnsafeHideBufferAccess", "unsafe_hide_buffer_access", ("block", "buf_type", "buf_index_array")
    ),
    InstructionKind("Blockize", "blockize", ("target|",), ("preserve_unit_iters",)),
    InstructionKind("Tensorize", "tensorize", ("block_or_loop",), ("tensor_intrin", "preserve_unit_iters")),
    InstructionKind(
        "Annotate", "annotate", ("block_or_loop", "ann_val"), ("ann_key",), ("block_or_loop", "ann_key", "ann_val")
    ),
    InstructionKind("Unannotate", "unannotate", ("block_or_loop",), ("ann_key",)),
    InstructionKind(
        "TransformLayout", "transform_layout", ("block", "index_map"),
        ("buffer_index", "buffer_index_type", "pad_value", "assume_injective_transform"),
        ("block", "buffer_index", "index_map", "pad_value", "assume_injective_transform"),
    ),
    InstructionKind("TransformBlockLayout", "transform_block_layout", ("block",), ("index_map",)),
    InstructionKind("DecomposePadding", "decompose_padding", ("block", "loop")),
    InstructionKind("PadEinsum", "pad_einsum", ("block",), ("padding",)),
    InstructionKind("RollingBuffer", "rolling_buffer", ("block",), ("write_buffer_index",)),
    InstructionKind("EnterPostproc", "enter_postproc"),
]  # fmt: skip
_BY_NAME: Mapping[str, InstructionKind] = {kind.name: kind for kind in _KINDS}
_BY_PRIMITIVE: Mapping[str, InstructionKind] = {kind.prim: kind for kind in _KINDS}
INSTRUCTIONS: Mapping[str, str] = {kind.name: kind.prim for kind in _KINDS}
"""The primitive of each instruction."""

_UNSAID: Mapping[str, Any] = {
    "func_name": None, "preserve_unit_iters": True, "disable_predication": False, "preserve_unit_loops": False,
    "index": -1, "cse_thresh": 0, "ann_val": None, "pad_value": None, "assume_injective_transform": False,
    "factor_first": True,
}  # fmt: skip
"""What attributes are in traces of versions that did not write them yet."""
_SIDES = ("read", "write")
MAPS = ("index_map", "pad_value")
"""The parts that are index maps."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its parts by position, and the names of its results."""

    kind: InstructionKind
    inputs: tuple[Any, ...]
    attrs: tuple[Any, ...]
    outputs: tuple[RV, ...]

    def __init__(
        self, kind: InstructionKind, inputs: Iterable[Any], attrs: Iterable[Any], outputs: Iterable[RV]
    ) -> None:
        object.__setattr__(self, "kind", kind)
        for name, given in (("inputs", inputs), ("attrs", attrs), ("outputs", outputs)):
            object.__setattr__(self, name, tuple(_plain(value) for value in given))

    def __str__(self) -> str:
        return python_line(self, lambda rv: "_", quote=str)


def _plain(value: Any) -> Any:
    """Numbers and text for the nodes that stand for them, tuples for lists."""
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    held = getattr(value, "value", value)
    return held if isinstance(held, bool | int | float | str) else value


# --------------------------------------------------------------------------- from steps and to them


def kind_of(prim: str) -> InstructionKind | None:
    """The kind of instruction for steps of the primitive `prim`; None if TVM has none."""
    return _BY_PRIMITIVE.get(prim)


def field_name(step: Step) -> str:
    """The instruction's name of a step; the primitive's where there is none."""
    kind = kind_of(step.prim)
    return step.prim if kind is None else kind.name


def instruction_of(step: Step) -> Instruction:
    """Return the instruction for a step. Raises FieldTraceError for a step unknown to TVM."""
    kind = kind_of(step.prim)
    if kind is None:
        raise FieldTraceError(f"trace: Apache TVM has no instruction for {step.prim}")
    held = {**get_primitive(step.prim).defaults, **dict(step.attrs)}
    rest: list[Any] = list(step.inputs)
    inputs: list[Any] = []
    for part in kind.inputs:
        name = part.rstrip("*+[]|")
        if held.get(name) is not None:
            inputs.append(_there(name, held[name]))
        elif part[-1] in "*+":
            inputs += rest
            rest = []
        elif part[-1] in "]|":
            inputs.append(rest[0] if part[-1] == "|" and len(rest) == 1 else tuple(rest))
            rest = []
        else:
            inputs.append(rest.pop(0))
    if rest:
        raise FieldTraceError(f"trace: Apache TVM's {kind.name} takes less than this {step.prim} is given")
    return Instruction(kind, inputs, [_there(name, held.get(name)) for name in kind.attrs], step.outputs)


def step_of(inst: Instruction) -> Step:
    """Return the step for an instruction. Raises FieldTraceError for one that is not as TVM makes it."""
    kind, prim = inst.kind, get_primitive(inst.kind.prim)
    flat: list[Input] = []
    held: dict[str, Any] = {}
    for name, value in _named_inputs(inst):
        if name in prim.attrs and not isinstance(value, RV):
            held[name] = _here(prim, name, value)
        elif isinstance(value, tuple):
            flat += value
        else:
            flat.append(value)
    if any(inst.attrs[len(kind.attrs) :]):
        raise FieldTraceError(f"step {kind.name} of the trace says more than is known here: {inst.attrs}")
    held.update((name, _here(prim, name, value)) for name, value in zip(kind.attrs, inst.attrs))
    missing = prim.attrs.keys() - held.keys() - _UNSAID.keys()
    if missing:
        names = ", ".join(sorted(missing))
        raise FieldTraceError(f"step {kind.name} of the trace is not as TVM writes it: it does not say {names}")
    stated = prim.stated({**prim.defaults, **{k: v for k, v in _UNSAID.items() if k in prim.attrs}, **held})
    step = Step(prim.name, tuple(flat), stated, inst.outputs)
    try:
        check_step(step)
    except ScheduleError as error:
        raise FieldTraceError(f"step {kind.name} of the trace: {error.message}") from None
    return step


def _named_inputs(inst: Instruction) -> list[tuple[str, Any]]:
    """The inputs by name; those of a part "x*" or "x+" as one tuple."""
    parts, given = inst.kind.inputs, inst.inputs
    several = bool(parts) and parts[-1][-1] in "*+"
    if several:
        given = (*given[: len(parts) - 1], given[len(parts) - 1 :])
    elif len(given) == len(parts) - 1 and parts[-1].endswith("[]"):
        given = (*given, ())
    if len(given) != len(parts):
        raise FieldTraceError(f"step {inst.kind.name} of the trace has {len(given)} inputs, not {len(parts)}")
    return [(part.rstrip("*+[]|"), value) for part, value in zip(parts, given)]


def _there(name: str, value: Any) -> Any:
    """An attribute as TVM's instructions have it."""
    if name == "func_name":
        return value or "main"
    return _SIDES.index(value) if name == "buffer_index_type" and value in _SIDES else value


def _here(prim: Primitive, name: str, value: Any) -> Any:
    """An attribute of TVM's as the primitive has it."""
    if name == "func_name":
        return None if value == "main" else value
    if name == "buffer_index_type" and value in (0, 1):
        return _SIDES[value]
    types = prim.attrs.get(name, ())
    if types == (bool,) and value in (0, 1):
        return bool(value)
    return value


# ------------------------------------------------------------------------------------ Python


def python_line(
    inst: Instruction,
    name: Callable[[RV], str],
    decision: Decision | None = None,
    quote: Callable[[str], str] = lambda text: json.dumps(text, ensure_ascii=False),
) -> str:
    """Write an instruction as a call on a schedule `sch`: `name` names its results, `quote` quotes text."""
    kind = inst.kind

    def shown(value: Any) -> str:
        match value:
            case BlockRV() | LoopRV() | ExprRV():
                return name(value)
            case str():
                return quote(value)
            case float() if not value.is_integer():
                return f"{value:.17g}"
            case tuple() | list():
                return f"[{', '.join(map(shown, value))}]"
        return str(value)

    values: dict[str, Any] = dict(_named_inputs(inst))
    values.update(zip(kind.attrs, inst.attrs))
    arguments: list[str] = []
    for part in kind.call or (*kind.inputs, *kind.attrs):
        key = part.rstrip("*+[]|")
        value = values[key]
        if part.endswith("[]") and not value:
            continue
        if key == "buffer_index" and "buffer_index_type" in kind.attrs:
            arguments.append(f"buffer=({quote(_SIDES[values['buffer_index_type']])}, {value})")
        elif part.startswith("_"):
            arguments += map(shown, value if part.endswith("*") else [value])
        elif key in MAPS and value is not None:
            arguments.append(f"{key}={python_of_map(value, places_of(values['index_map']))}")
        elif key != "buffer_index_type":
            arguments.append(f"{key}={shown(value)}")
    if decision is not None:
        arguments.append(f"decision={shown(decision)}")
    call = f"sch.{kind.prim}({', '.join(arguments)})"
    if not inst.outputs:
        return call
    made = ", ".join(map(name, inst.outputs))
    comma = "," if get_primitive(kind.prim).several and len(inst.outputs) == 1 else ""
    return f"{made}{comma} = {call}"


def numbered(outputs: Sequence[RV], names: dict[RV, str]) -> list[str]:
    """Name results as TVM does, numbered over all kinds, and keep the names in `names`."""
    for made in outputs:
        names[made] = f"{str(made)[0]}{len(names)}"
    return [names[made] for made in outputs]
