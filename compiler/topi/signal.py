"""Fourier transforms, by their definition: n² steps along the last dimension."""

from __future__ import annotations

import math
from typing import Any

from compiler.te.operation import compute, const, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor, as_shape
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described as shown
from compiler.topi.checks import differ, modulo, need_dtype, need_floats, need_rank, refusal


def dft(re_data: Tensor, im_data: Tensor, inverse: Any = False) -> list[Tensor]:
    """Take the discrete Fourier transform along the last dimension: [real, imaginary].

    It is that of real and imaginary parts. `inverse` turns the other way and divides by the size. Raises IRError when
    the parts differ.
    """
    need_floats("dft", re_data)
    need_dtype("dft", re_data.dtype, im_data)
    same = re_data.ndim == im_data.ndim and not any(differ(*p) for p in zip(re_data.shape, im_data.shape))
    if not same or re_data.ndim < 1:
        raise refusal("dft", f"parts must have one shape, of at least one dimension: {shown(re_data, im_data)}")
    size = re_data.shape[-1]
    way = -1.0 if not inverse else 1.0
    cosines, sines = _waves(size, size, way)

    def part(name: str, real: bool) -> Tensor:
        k = reduce_axis((0, size), name="k")

        def value(*i: Var) -> PrimExpr:
            turn = ops.cast("int64", modulo(ops.mul(ops.cast("int64", i[-1]), ops.cast("int64", k.var)), size))
            x, y = re_data(*i[:-1], k).astype("float64"), im_data(*i[:-1], k).astype("float64")
            c, s = cosines(turn), sines(turn)
            result: PrimExpr = te_sum(x * c - y * s if real else x * s + y * c, axis=k)
            return result

        total: Tensor = compute(re_data.shape, value, name=name, tag="comm_reduce")
        scale = ops.cast("float64", size) if inverse else const(1.0, "float64")
        result: Tensor = compute(
            re_data.shape, lambda *i: (total(*i) / scale).astype(re_data.dtype), name=f"{name}_out", tag="elemwise"
        )
        return result

    return [part("T_dft_re", True), part("T_dft_im", False)]


def _waves(size: PrimExpr, period: PrimExpr, way: float) -> tuple[Tensor, Tensor]:
    """cos and sin of `way` * 2 pi t / `period` for t below `size`, in float64."""

    def angle(t: Var) -> PrimExpr:
        part = ops.div(ops.cast("float64", t), ops.cast("float64", ops.maximum(period, 1)))
        return ops.mul(part, const(way * 2 * math.pi, "float64"))

    cosines: Tensor = compute((size,), lambda t: intrin.cos(angle(t)), name="T_cosines", tag="elemwise")
    sines: Tensor = compute((size,), lambda t: intrin.sin(angle(t)), name="T_sines", tag="elemwise")
    return cosines, sines


def stft(
    data: Tensor, n_fft: int, hop_length: int, win_length: int, window: Tensor, normalized: bool, onesided: bool,
    output_shape: Any,
) -> Tensor:  # fmt: skip
    """The short-time Fourier transform of `data` (batch, length): (batch, frequencies, frames, 2).

    Frames of `n_fft` values begin every `hop_length`; `window` of `win_length` values weighs their middle.
    `normalized` divides by sqrt(n_fft); `onesided` leaves out the mirrored frequencies; `output_shape` is the result's.
    """
    op = "stft"
    need_floats(op, data, window)
    need_rank(op, data, 2)
    need_rank(op, window, 1)
    shape = as_shape(output_shape, op)
    if len(shape) != 4 or win_length > n_fft or min(n_fft, hop_length, win_length) < 1:
        raise refusal(op, f"n_fft {n_fft}, hop_length {hop_length}, win_length {win_length}, output {output_shape!r}")
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if differ(shape[1], wanted) or differ(window.shape[0], win_length):
        raise refusal(
            op, f"{shown(window)} and output {output_shape!r} do not fit n_fft {n_fft}, win_length {win_length}"
        )
    before = (n_fft - win_length) // 2
    cosines, sines = _waves(ops.const(n_fft), ops.const(n_fft), -1.0)
    scale = const(1 / math.sqrt(n_fft) if normalized else 1.0, "float64")
    k = reduce_axis((0, win_length), name="k")

    def value(batch: Var, frequency: Var, frame: Var, part: Var) -> PrimExpr:
        place = ops.add(ops.add(ops.mul(frame, hop_length), k.var), before)
        turn = ops.floormod(ops.mul(ops.cast("int64", frequency), ops.add(ops.cast("int64", k.var), before)), n_fft)
        x = data(batch, place).astype("float64") * window(k.var).astype("float64")
        wave = intrin.select(ops.equal(part, 0), cosines(turn), sines(turn))
        result: PrimExpr = te_sum(x * wave, axis=k)
        return result

    total: Tensor = compute(shape, value, name="T_stft", tag="comm_reduce")
    result: Tensor = compute(
        shape, lambda *i: (total(*i) * scale).astype(data.dtype), name="T_stft_out", tag="elemwise"
    )
    return result
