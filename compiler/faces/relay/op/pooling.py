"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.faces.relay.op.values import shape
from compiler.faces.relay.table import In, operator
from compiler.relax import op as R

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) else value


def _max(dims: int) -> None:
    rule = getattr(R.nn, f"max_pool{dims}d")

    def body(
        data: In, pool_size: Any = (1,) * dims, strides: Any = (1,) * dims, dilation: Any = (1,) * dims,
        padding: Any = (0,) * dims, layout: str = _LAYOUTS[dims], out_layout: str = "", ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        return rule(
            data, _list(pool_size), _list(strides), _list(padding), _list(dilation), ceil_mode, layout=layout,
            out_layout=out_layout or None,
        )  # fmt: skip

    body.__doc__ = f"The largest element of windows over {dims} dimensions."
    operator(f"nn.max_pool{dims}d")(body)


def _avg(dims: int) -> None:
    rule = getattr(R.nn, f"avg_pool{dims}d")

    def body(
        data: In, pool_size: Any = (1,) * dims, strides: Any = (1,) * dims, dilation: Any = (1,) * dims,
        padding: Any = (0,) * dims, layout: str = _LAYOUTS[dims], out_layout: str = "", ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Any:  # fmt: skip
        return rule(
            data, _list(pool_size), _list(strides), _list(padding), _list(dilation), ceil_mode, count_include_pad,
            layout, out_layout or None,
        )  # fmt: skip

    body.__doc__ = f"The mean of windows over {dims} dimensions; `count_include_pad` counts padding as elements."
    operator(f"nn.avg_pool{dims}d")(body)


def _global(dims: int, kind: str) -> None:
    def body(data: In, layout: str = _LAYOUTS[dims], out_layout: str = "") -> Any:
        axes = [at for at, letter in enumerate(layout) if letter in "DHW"]
        return (R.mean if kind == "avg" else R.max)(data, axes, True)

    body.__doc__ = f"The {'mean' if kind == 'avg' else 'largest element'} of each channel."
    operator(f"nn.global_{kind}_pool{dims}d")(body)


def _adaptive(dims: int, kind: str) -> None:
    def body(data: In, output_size: Any = None, layout: str = _LAYOUTS[dims], out_layout: str = "") -> Any:
        if kind == "avg":
            return getattr(R.nn, f"adaptive_avg_pool{dims}d")(data, _list(output_size), layout, out_layout or None)
        return _adaptive_max(data, output_size, layout, dims)

    body.__doc__ = f"Windows whose {'means' if kind == 'avg' else 'largest elements'} give `output_size`."
    operator(f"nn.adaptive_{kind}_pool{dims}d")(body)


def _adaptive_max(data: Any, output_size: Any, layout: str, dims: int) -> Any:
    sizes = shape(data, f"adaptive_max_pool{dims}d")
    axes = [at for at, letter in enumerate(layout) if letter in "DHW"]
    wanted = [sizes[at] for at in axes] if output_size is None else output_size
    counts = list(wanted) if isinstance(wanted, Sequence) else [wanted] * dims
    if any(sizes[at] % count for at, count in zip(axes, counts)):
        raise ValueError(f"adaptive_max_pool{dims}d: sizes {sizes} are no multiples of {counts}")
    window = [sizes[at] // count for at, count in zip(axes, counts)]
    return getattr(R.nn, f"max_pool{dims}d")(data, window, window, [0] * dims, layout=layout)


for _dims in _LAYOUTS:
    _max(_dims)
    _avg(_dims)
    for _kind in ("avg", "max"):
        _global(_dims, _kind)
        _adaptive(_dims, _kind)
