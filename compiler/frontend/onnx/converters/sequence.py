"""Sequences and optional values.

The import knows what they hold, so nothing of them is left in the graph.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from compiler.frontend.onnx.errors import NeedsValueError
from compiler.frontend.onnx.graph_builder import GraphBuilder
from compiler.frontend.onnx.node import Node
from compiler.frontend.onnx.registry import Result, converter
from compiler.frontend.onnx.values import OptionalValue, SequenceValue, TensorValue, Value
from compiler.relax import op
from compiler.tir import ops

MAX_ITEMS = 1 << 14
"""Parts that a tensor is cut into."""


def _sequence(node: Node, index: int = 0) -> SequenceValue:
    found = node.inputs[index] if node.given(index) else None
    if isinstance(found, OptionalValue):
        found = found.item
    if not isinstance(found, SequenceValue):
        node.fail(f"the input {index} is no sequence")
    return found


def _place(g: GraphBuilder, node: Node, index: int, size: int) -> int:
    """A place in a sequence, which may count from the end."""
    place = g.static_ints(node.value(index), "the place in a sequence")[0]
    if not -size <= place < size:
        node.fail(f"the place {place} in a sequence of {size}")
    return place % size


@converter("SequenceEmpty")
def empty(g: GraphBuilder, node: Node) -> Result:
    """Make a sequence of nothing."""
    return SequenceValue(())


@converter("SequenceConstruct")
def construct(g: GraphBuilder, node: Node) -> Result:
    """Make a sequence of tensors."""
    return SequenceValue(tuple([node.value(k) for k in range(len(node.inputs))]))


@converter("SequenceAt")
def at(g: GraphBuilder, node: Node) -> Result:
    """Take one item of a sequence."""
    items = _sequence(node).items
    return items[_place(g, node, 1, len(items))]


@converter("SequenceInsert")
def insert(g: GraphBuilder, node: Node) -> Result:
    """Put an item into a sequence; at its end unless a place is given."""
    items = list(_sequence(node).items)
    place = len(items)
    if node.given(2):
        place = g.static_ints(node.value(2), "the place in a sequence")[0]
        place = place + len(items) if place < 0 else place
    items.insert(place, node.value(1))
    return SequenceValue(tuple(items))


@converter("SequenceErase")
def erase(g: GraphBuilder, node: Node) -> Result:
    """Take an item out of a sequence; the last unless a place is given."""
    items = list(_sequence(node).items)
    del items[_place(g, node, 1, len(items)) if node.given(1) else -1]
    return SequenceValue(tuple(items))


@converter("SequenceLength")
def length(g: GraphBuilder, node: Node) -> Result:
    """Give how many items there are."""
    return g.known(np.array(len(_sequence(node).items), np.int64))


@converter("ConcatFromSequence")
def concat(g: GraphBuilder, node: Node) -> Result:
    """Put the tensors of a sequence one after another, or beside each other along a new axis."""
    items = [g.expr(item) for item in _sequence(node).items if isinstance(item, TensorValue)]
    axis = int(node.required("axis"))
    if node.int("new_axis", 0):
        return op.stack(items, axis)
    return items[0] if len(items) == 1 else op.concat(items, axis)


@converter("SplitToSequence")
def split(g: GraphBuilder, node: Node) -> Result:
    """Cut a tensor into a sequence of parts along an axis."""
    x, given = node.value(0), node.optional(1)
    axis = node.int("axis", 0) % g.rank(x)
    size = ops.as_int(g.shape(x)[axis])
    if size is None:
        raise NeedsValueError.of("the size of a dimension that is cut into a sequence", x.wants)
    drop = False
    part = 1 if given is None or g.rank(given) else g.static_ints(given, "split")[0]
    if part <= 0 or (size / part > MAX_ITEMS and (given is None or not g.rank(given))):
        node.fail(f"it cuts {size} elements into sequences of {part}")
    if given is None:
        sizes, drop = [1] * size, not node.int("keepdims", 1)
    else:
        wanted = g.static_ints(given, "split")
        sizes = wanted
        if g.rank(given) == 0:
            sizes = [min(part, size - start) for start in range(0, size, part)]
    cuts = list(accumulate(sizes))[:-1]
    parts: list[Any] = g.items(g.emit(op.split(g.expr(x), cuts, axis))) if cuts else [g.expr(x)]
    if drop:
        parts = [g.emit(op.squeeze(part, [axis])) for part in parts]
    return SequenceValue(tuple([g.value(part, x.elem, x.wants) for part in parts]))


@converter("Optional")
def optional(g: GraphBuilder, node: Node) -> Result:
    """Make an optional value, of something or of nothing."""
    found = node.inputs[0] if node.given(0) else None
    if isinstance(found, OptionalValue):
        return found
    return OptionalValue(found)


@converter("OptionalHasElement")
def has_element(g: GraphBuilder, node: Node) -> Result:
    """Tell whether there is a value."""
    found = node.inputs[0] if node.given(0) else None
    if isinstance(found, OptionalValue):
        found = found.item
    return g.known(np.array(found is not None))


@converter("OptionalGetElement")
def get_element(g: GraphBuilder, node: Node) -> Result:
    """Take the value out of an optional one."""
    found: Value | None = node.inputs[0] if node.given(0) else None
    if isinstance(found, OptionalValue):
        found = found.item
    if found is None:
        node.fail("there is no value")
    return found
