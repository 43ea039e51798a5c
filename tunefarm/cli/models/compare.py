"""Compare a model's results with another program's: how far apart, and which operator differs first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compiler.errors import ArgumentError, TunefarmError
from compiler.frontend.model_files import ModelFile
from compiler.relax.interp import run as interpret
from tunefarm.cli.models.inputs import AnyArray

PEERS = ("onnxruntime", "reference")


@dataclass(frozen=True)
class Difference:
    """How far one tensor is from the expected one.
    It is the largest difference, also relative to the largest value."""

    name: str
    absolute: float
    relative: float
    agrees: bool


@dataclass(frozen=True)
class FirstDifference:
    """The first operator of a model whose result differs. `fused`: only in a kernel together with others."""

    node: str
    operator: str
    difference: Difference
    fused: bool


@dataclass(frozen=True)
class Compared:
    """Results beside another program's.
    `first` is the first operator that differs, where one was looked for."""

    differences: tuple[Difference, ...] = ()
    first: FirstDifference | None = None
    looked: bool = False

    @property
    def wrong(self) -> tuple[Difference, ...]:
        """The results that differ."""
        return tuple(apart for apart in self.differences if not apart.agrees)

    def lines(self) -> list[str]:
        """Lines about each result, and about the operator."""
        said = [
            f"{apart.name} {'agrees' if apart.agrees else 'DIFFERS'}: largest difference {apart.absolute:.3g}, "
            f"{apart.relative:.3g} of the largest"
            for apart in self.differences
        ]
        return [*said, told(self.first)] if self.looked else said

    def to_json(self) -> dict[str, Any]:
        return {
            "differences": [asdict(apart) for apart in self.differences],
            "first_difference": asdict(self.first) if self.first else None,
        }


RunModel = Callable[[ModelFile], Any]
"""Builds a model as the one that is compared was built, and returns what it gives there: an array, or a tuple."""


class ComparisonError(TunefarmError, kind="comparison"):
    """The program to compare with is missing, or does not take the model."""


def difference(name: str, got: AnyArray, want: AnyArray, rtol: float, atol: float) -> Difference:
    """How far `got` is from `want`. They agree where no difference is above atol + rtol × |want|."""
    if got.shape != want.shape:
        return Difference(name, np.inf, np.inf, False)
    if not want.size:
        return Difference(name, 0.0, 0.0, True)
    left, right = got.astype(np.float64), want.astype(np.float64)
    apart = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.abs(left - right))
    apart = np.where(np.isnan(apart), np.inf, apart)
    largest = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
    worst = float(apart.max())
    return Difference(
        name, worst, worst / largest if largest else worst, bool((apart <= atol + rtol * np.abs(right)).all())
    )


def compare_results(
    peer: str, model: ModelFile, path: Path, inputs: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray],
    rtol: float, atol: float, bisect: tuple[Mapping[str, int], RunModel] | None,
) -> Compared:  # fmt: skip
    """Compare the results of a model with those of another program.

    `bisect`: sizes of dimensions and what runs a model, to look for the first operator where something differs. Raises
    ComparisonError where the other program cannot be asked.
    """
    wanted = peer_results(peer, model, path, inputs)
    found = tuple(
        difference(name, got, want, rtol, atol) for (name, got), want in zip(outputs.items(), wanted, strict=True)
    )
    if bisect is None or all(apart.agrees for apart in found):
        return Compared(found)
    sizes, run = bisect
    return Compared(found, first_difference(path, sizes, inputs, rtol, atol, run), looked=True)


def peer_results(peer: str, model: ModelFile, path: Path, inputs: Mapping[str, AnyArray]) -> list[AnyArray]:
    """The results that another program gives. Raises ComparisonError where it cannot be asked."""
    if peer == "reference":
        found = interpret(model.module, *inputs.values())
        return [np.asarray(item) for item in (found if isinstance(found, tuple) else (found,))]
    return [np.asarray(item) for item in _onnxruntime(path, str(path), inputs)]


def _onnxruntime(path: Path, content: str | bytes, inputs: Mapping[str, AnyArray]) -> Sequence[Any]:
    if path.suffix != ".onnx":
        raise ArgumentError(f"onnxruntime runs ONNX models, {path} is none", hint="--compare reference")
    try:
        import onnxruntime
    except ImportError:
        raise ComparisonError("onnxruntime is not installed", hint="pip install onnxruntime") from None
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        results: Sequence[Any] = session.run(None, dict(inputs))
    except Exception as error:  # its errors are of a dozen classes of its own
        raise ComparisonError(f"onnxruntime refuses the model: {str(error).splitlines()[0]}") from None
    return results


def first_difference(
    path: Path, sizes: Mapping[str, int], inputs: Mapping[str, AnyArray], rtol: float, atol: float, run: RunModel
) -> FirstDifference | None:
    """Return the first operator of an ONNX model whose result differs from onnxruntime's.

    It is the first in order of computation. First all tensors become results, so that no operator is fused. If all
    of them agree, the model is cut off at one tensor after the other, by bisection. An operator found that way is
    fused, or built with a config. None: no cut differs.
    """
    from compiler.frontend.onnx.from_onnx import import_model  # loads onnx
    from compiler.frontend.onnx.taps import Tap, TappedModel

    tapped = TappedModel(path)
    taps = tapped.taps
    content = tapped.with_results(taps)
    wanted = _onnxruntime(path, content, inputs)

    def compared(taps: Sequence[Tap], content: bytes, wanted: Sequence[Any], name: str) -> Iterator[Difference | None]:
        imported = import_model(content)
        found = run(ModelFile(name, imported.module, imported.inputs).with_sizes(sizes))
        for tap, got, want in zip(taps, found if isinstance(found, tuple) else (found,), wanted, strict=True):
            if isinstance(want, np.ndarray) and hasattr(got, "numpy"):
                yield difference(tap.tensor, got.numpy(), want, rtol, atol)
            else:
                yield None

    for tap, apart in zip(taps, compared(taps, content, wanted, "every_tensor"), strict=True):
        if apart is not None and not apart.agrees:
            return FirstDifference(tap.node, tap.operator, apart, fused=False)
    first = None
    low, high = 0, len(taps)
    while low < high:
        middle = (low + high) // 2
        tap = taps[middle]
        [apart] = compared([tap], tapped.with_results([tap]), wanted[middle : middle + 1], f"cut_{middle}")
        if apart is not None and not apart.agrees:
            first, high = FirstDifference(tap.node, tap.operator, apart, fused=True), middle
        else:
            low = middle + 1
    return first


def told(first: FirstDifference | None) -> str:
    """Say in a sentence which operator differs first."""
    if first is None:
        return "no operator differs alone: only the whole model does, by what small differences add up to"
    where = f"{first.operator} at node {first.node!r}: {first.difference.name} by {first.difference.absolute:.3g}"
    if first.fused:
        return f"every operator agrees alone; fused, the first that differs is {where}"
    return f"the first operator that differs is {where}"
