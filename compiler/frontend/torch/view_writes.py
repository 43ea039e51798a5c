"""The value of a tensor after a write to one of its views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.converters.scatter import select_scatter, slice_scatter
from compiler.frontend.torch.errors import Refused
from compiler.relax import op


def with_view(c: Conversion, source: Any, part: Any, arguments: Sequence[Any]) -> Any:
    """`source` with `part` in the place of what the view `c.node` shows of it.

    `arguments` are those of the view after its tensor. Refuses views that it does not know: see `writes.VIEWS`.
    """
    ndim = c.ndim(source)
    match str(c.node.target):
        case "aten.slice.Tensor":
            given = dict(zip(("dim", "start", "end", "step"), arguments))
            step = given.get("step", 1)
            return slice_scatter(c, source, part, given.get("dim", 0), given.get("start"), step)
        case "aten.select.int":
            return select_scatter(c, source, part, *arguments)
        case "aten.permute.default":
            order = [c.axis(axis, ndim) for axis in arguments[0]]
            return op.permute_dims(part, tuple(order.index(axis) for axis in range(ndim)))
        case "aten.transpose.int" | "aten.t.default":
            order = list(range(ndim))
            if ndim > 1:
                first, second = [c.axis(axis, ndim) for axis in (arguments or (0, 1))]
                order[first], order[second] = order[second], order[first]
            return op.permute_dims(part, tuple(order))
        case "aten.alias.default" | "aten.detach.default":
            return part
        case "aten.view.default" | "aten.unsqueeze.default" | "aten.squeeze.dim" | "aten.squeeze.dims":
            return c.reshaped(part, c.shape(source))
    raise Refused("not known")
