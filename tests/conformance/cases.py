"""The cases of the `onnx` wheel's node suite, each with other values of equal shape and what onnx.reference makes of
them. They are made by a process of their own and kept in a file, so that what runs them needs no reference."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.kit.places import ROOT

PLAIN = frozenset({
    "FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
})  # fmt: skip


@dataclass(slots=True)
class Case:
    """A model, its inputs and what comes out: as the suite says, and for other values. `plain`: of the default domain,
    on tensors of numpy's own types."""

    name: str
    model: bytes
    operators: list[str]
    plain: bool
    rtol: float
    atol: float
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    other_inputs: list[Any] | None = None
    other_outputs: list[Any] | None = None


def digest(name: str) -> int:
    """A number that is a case's own, the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


SLOW = ("attention", "expanded", "gru", "loss", "lstm", "layer_norm", "reduce_", "rnn")
"""Parts of the names of cases that take long to compile."""


def chosen(name: str, share: int) -> bool:
    """Whether a case is among one in `share` of them; of those that take long, five times fewer."""
    return digest(name) % (5 * share if share > 1 and any(word in name for word in SLOW) else share) == 0


def cases(only: Any = None) -> list[Case]:
    """The cases that `only(name)` holds for."""
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")
    found = []
    for case in collect_testcases(None):
        if only is not None and not only(case.name):
            continue
        found.append(_case(case))
    return found


def _case(case: Any) -> Case:
    from onnx import TensorProto

    model = case.model
    types = [item.type for item in (*model.graph.input, *model.graph.output)]
    names = {
        TensorProto.DataType.Name(t.tensor_type.elem_type) if t.WhichOneof("value") == "tensor_type" else "OTHER"
        for t in types
    }
    plain = names <= PLAIN and {item.domain for item in model.opset_import} <= {""}
    operators = sorted({node.op_type for node in model.graph.node})
    inputs, outputs = case.data_sets[0]
    made = Case(case.name, model.SerializeToString(), operators, plain, case.rtol, case.atol,
                [_plain(x) for x in inputs], [_plain(y) for y in outputs])  # fmt: skip
    _other(made, model)
    return made


def _plain(value: Any) -> Any:
    """A value without protos: arrays, lists of them, None."""
    from onnx import SequenceProto, TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, np.ndarray):
        return value
    if type(value).__name__ == "OptionalProto":
        return _plain(numpy_helper.to_optional(value))
    return np.asarray(value)


def _other(case: Case, model: Any) -> None:
    """Other values of equal shape, and what the reference makes of them, where it agrees with the suite at all."""
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(digest(case.name))
    names = [item.name for item in model.graph.input]
    if any(not isinstance(x, np.ndarray) or x.dtype.kind in "OUS" for x in case.inputs):
        return
    try:
        reference = ReferenceEvaluator(model)
        first = reference.run(None, dict(zip(names, case.inputs)))
        if not same(list(first), case.outputs, case.rtol, max(case.atol, 1e-5)):
            return
    except Exception:  # what the reference cannot do is not asked of it
        return
    for kinds in ("fbiuV", "fV"):
        given = [
            rng.permutation(x.reshape(-1)).reshape(x.shape) if x.dtype.kind in kinds and x.size > 1 else x
            for x in case.inputs
        ]
        if all(np.array_equal(a, b) for a, b in zip(given, case.inputs)):
            continue
        try:
            made = reference.run(None, dict(zip(names, given)))
        except Exception:  # values that mean nothing, a shape that does not fit for instance
            continue
        if any(_finite(a) and not _finite(b) for a, b in zip(first, made)):
            continue  # the reference overflows, a logarithm of a softmax that is 0 for instance
        case.other_inputs, case.other_outputs = given, [_plain(y) for y in made]
        return


def _finite(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.dtype.kind != "f" or bool(np.isfinite(value).all())


def is_rounding(found: Any, wanted: Any) -> bool:
    """Whether results are floats that differ by at most four units in the last place of the largest of them."""
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(is_rounding(a, b) for a, b in zip(found, wanted))
    a, b = np.asarray(found), np.asarray(wanted)
    if a.shape != b.shape or a.dtype != b.dtype or b.dtype.kind != "f":
        return a.dtype == b.dtype and np.array_equal(a, b)
    with np.errstate(all="ignore"):
        far = np.abs(a.astype(np.float64) - b.astype(np.float64))
    scale = np.max(np.abs(b.astype(np.float64)), initial=0.0, where=np.isfinite(b))
    return bool(np.all((far <= 4 * np.finfo(b.dtype).eps * scale) | (a == b) | (np.isnan(a) & np.isnan(b))))


def same(found: Any, wanted: Any, rtol: float, atol: float) -> bool:
    """Whether results agree, by the suite's own rule."""
    return difference(found, wanted, rtol, atol) == ""


def difference(found: Any, wanted: Any, rtol: float, atol: float) -> str:
    """How results differ; "" where they agree."""
    if isinstance(wanted, list | tuple):
        if not isinstance(found, list | tuple) or len(found) < len(wanted):
            return "another number of results"
        return next((why for a, b in zip(found, wanted) if (why := difference(a, b, rtol, atol))), "")
    if wanted is None:
        return "" if found is None else "a value where none is wanted"
    a, b = np.asarray(found), np.asarray(wanted)
    if a.shape != b.shape:
        return f"shape {a.shape} instead of {b.shape}"
    if a.dtype != b.dtype:
        return f"dtype {a.dtype} instead of {b.dtype}"
    if b.dtype.kind == "O":
        return "" if np.array_equal(a, b) else "other texts"
    if b.dtype.name == "bfloat16":
        rtol = max(rtol, 2.0**-6)
    a, b = (x if x.dtype.kind == "c" else x.astype(np.float64) for x in (a, b))
    try:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    except AssertionError:
        with np.errstate(all="ignore"):
            return f"largest difference {np.nanmax(np.abs(a - b)):.3g}" if a.size else "differs"
    return ""


def cases_file(share: int) -> Path:
    """A file with one in `share` of the cases. It is made where it is not there yet."""
    import onnx

    key = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    path = ROOT / "build" / f"onnx-cases-{onnx.__version__}-{share}-{key}.pickle"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        made.write_bytes(pickle.dumps(cases(lambda name: chosen(name, share))))
        made.replace(path)
    return path


def read(path: Path) -> list[Case]:
    """The cases of a file."""
    found: list[Case] = pickle.loads(path.read_bytes())
    return found
