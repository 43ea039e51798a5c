"""A family as one artifact: right at every size, whatever its kernels are."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from tests.kit.tuner.family_records import made_up
from tuner.families.build import at_size, build_family, build_untuned, drafted_kernels, function_name, kernels_of
from tuner.families.family import FamilySpec
from tuner.families.record import FamilyRecord
from tuner.families.sizes import FamilyError


def test_dense_at_any_size() -> None:
    record = made_up("dense:M,48,32", ["M=1,4,17"])
    built = build_family(FamilyRecord.from_json(record.to_json()))
    name = function_name(record.name)
    assert name == "dense_M_48_32_float32"
    dense = load_artifact(built.artifact)[name]
    weight = np.random.default_rng(0).random((48, 32), "float32")
    for rows in (0, 1, 3, 4, 5, 17, 40):
        data, out = np.random.default_rng(rows).random((rows, 32), "float32"), empty((rows, 48))
        dense(array(data), array(weight), out)
        np.testing.assert_allclose(out.numpy(), data @ weight.T, rtol=1e-4)
    assert at_size(record, (9,)) is not None
    with pytest.raises(FamilyError, match="kernel of a file"):
        build_family(FamilyRecord.from_json({**record.to_json(), "what": {"file": "x.toml", "name": "scale"}}))


def test_a_convolution_without_general_kernels_has_the_untuned_one() -> None:
    """Its sizes are called as values and labels of the code that jumps are."""
    record = made_up("conv2d:1,4,slots,tree,8,3,3", ["slots,tree=6x5,8x8"])
    built = build_family(record)
    reference = load_artifact(build_untuned(FamilySpec.parse("conv2d:1,4,H,W,8,3,3"), Target(record.target), "plain"))
    conv = load_artifact(built.artifact)[function_name(record.name)]
    weight = np.random.default_rng(0).random((8, 4, 3, 3), "float32")
    for height, width in ((6, 5), (8, 8), (7, 9)):
        data = np.random.default_rng(1).random((1, 4, height, width), "float32")
        out, wanted = empty((1, 8, height, width)), empty((1, 8, height, width))
        conv(array(data), array(weight), out)
        reference["plain"](array(data), array(weight), wanted)
        np.testing.assert_allclose(out.numpy(), wanted.numpy(), rtol=1e-4)


def test_sizes_that_get_a_kernel_without_being_measured() -> None:
    """A record's rule picks their config; where nobody tuned, their kernel is drafted for that size."""
    record = made_up("conv2d:1,4,H,W,8,3,3", ["H,W=6x5,8x8"])
    found = kernels_of(record, more=[(7, 9), (8, 8)])
    assert set(found.rule.known) == {(6, 5), (8, 8), (7, 9)}
    assert list(found.funcs)[found.rule.known[7, 9]] == "7_9"
    weight = np.random.default_rng(0).random((8, 4, 3, 3), "float32")
    plain = load_artifact(build_untuned(FamilySpec.parse("conv2d:1,4,H,W,8,3,3"), Target(record.target), "f"))["f"]
    target, spec = Target(record.target), FamilySpec.parse("conv2d:1,4,H,W,8,3,3")
    for artifact in (
        build_family(record, "f", more=[(7, 9)]).artifact, build_untuned(spec, target, "f", [(7, 9), (7, 9)])
    ):  # fmt: skip
        conv = load_artifact(artifact)["f"]
        for height, width in ((6, 5), (7, 9), (9, 7)):
            data = np.random.default_rng(1).random((1, 4, height, width), "float32")
            out, wanted = empty((1, 8, height, width)), empty((1, 8, height, width))
            conv(array(data), array(weight), out)
            plain(array(data), array(weight), wanted)
            np.testing.assert_allclose(out.numpy(), wanted.numpy(), rtol=1e-4)


def test_sizes_that_drafts_are_made_at() -> None:
    """Tiles of images are one vector wide; rows of a product have tiles for few and for many. Where a window does not
    fit at the sizes drafts are made at, the function is as it is written."""
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2")
    counts = {"conv2d:1,4,H,H,8,3,3": 1, "conv2d:N,4,9,9,8,3,3": 2, "dense:M,64,256": 2, "conv2d:1,4,9,9,8,R,R": 1}
    for text, count in counts.items():
        assert len(drafted_kernels(FamilySpec.parse(text), target).funcs) == count, text
