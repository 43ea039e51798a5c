"""The built-in preprocessors of measurements."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import array, zeros
from compiler.runtime.core.registry import RegistryError
from compiler.runtime.load import load_artifact
from compiler.runtime.measure.preprocess import last_level_cache_bytes, preprocessor, randomize_arguments
from tests.kit.compiler.llvm_kernels import ADD, ADD_ENTRY, artifact

NAMES = ["cache_flush_cpu_non_first_arg", "cache_flush_cpu", "cache_thrash_cpu"]


@pytest.mark.parametrize("name", NAMES)
def test_flushing_changes_no_value(name: str) -> None:
    values = np.arange(4096, dtype="float32")
    arrays = [array(values), array(values + 1)]
    flush = preprocessor(name)
    assert flush is not None
    flush(*arrays, 3)
    np.testing.assert_array_equal(arrays[0].numpy(), values)
    np.testing.assert_array_equal(arrays[1].numpy(), values + 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64", "bool"])
def test_new_values_each_time(dtype: str) -> None:
    target = zeros((64,), dtype)
    randomize_arguments(target, 5)
    first = target.numpy().copy()
    randomize_arguments(target)
    assert (target.numpy() != first).any()


def test_a_kernel_is_measured_on_the_values_made_for_it() -> None:
    module = load_artifact(artifact(ADD, ADD_ENTRY))
    left, right, out = zeros((16,)), zeros((16,)), zeros((16,))
    module.time_evaluator("add", cpu(), number=1, repeat=2, f_preproc="randomize_arguments")(left, right, out)
    np.testing.assert_allclose(out.numpy(), left.numpy() + right.numpy(), rtol=1e-6)
    assert np.abs(out.numpy()).max() > 0


def test_an_unknown_preprocessor_lists_the_known() -> None:
    with pytest.raises(RegistryError, match="no global function 'flush_all'") as error:
        preprocessor("flush_all")
    assert "cache_flush_cpu" in str(error.value.hint)


def test_the_cache_size_is_plausible() -> None:
    size = last_level_cache_bytes()
    assert size is None or 1 << 18 <= size <= 1 << 32
