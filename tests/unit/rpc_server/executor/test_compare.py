import numpy as np
import pytest

from compiler.artifact import ArgSpec
from compiler.errors import ArgumentError
from rpc_server.executor import compare
from rpc_server.executor.compare import Inputs, disagreement, fill


def spec(dtype, shape=(50, 3)):
    return ArgSpec("x", dtype, shape)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_filling_is_a_function_of_seed_and_index(dtype):
    one = fill(spec(dtype), 3, 0)
    assert one.dtype == dtype
    np.testing.assert_array_equal(one, fill(spec(dtype), 3, 0))
    assert (one != fill(spec(dtype), 4, 0)).any()
    assert (one != fill(spec(dtype), 3, 1)).any()


def test_filled_values_stay_in_range():
    floats = fill(spec("float32", (10_000,)), 0, 0)
    assert floats.min() >= -1
    assert floats.max() < 1
    assert abs(floats.mean()) < 0.05
    small = fill(spec("int8", (10_000,)), 0, 0)
    assert (small.min(), small.max()) == (-8, 7)
    index = fill(spec("int32", (10_000,)), 0, 0)
    assert (index.min(), index.max()) == (0, 7)
    assert fill(spec("bfloat16"), 0, 0).dtype == np.float32


def test_scalars_and_open_shapes():
    assert 1 <= fill(spec("int32", None), 0, 2) <= 8
    assert 0 <= fill(spec("float32", None), 0, 2) < 1
    with pytest.raises(ArgumentError, match="no fixed shape"):
        fill(spec("float32", (3, "n")), 0, 0)


def test_inputs_are_kept_and_cannot_be_written_to(monkeypatch):
    kept = Inputs()
    first = kept.value(spec("float16"), 3, 0)
    assert first.tobytes() != kept.value(spec("float16"), 3, 1).tobytes()
    again = kept.value(spec("float16"), 3, 0)
    np.testing.assert_array_equal(again, fill(spec("float16"), 3, 0))
    assert again is kept.value(spec("float16"), 3, 0)
    assert not again.flags.writeable
    assert kept.value(spec("int32", None), 0, 2) == fill(spec("int32", None), 0, 2)
    monkeypatch.setattr(compare, "_MOST_BYTES", 700)
    small = Inputs()
    for index in range(3):
        small.value(spec("float16"), 0, index)  # 300 bytes each
    assert not small.value(spec("float16"), 0, 1).flags.writeable
    assert small.value(spec("float16"), 0, 2).flags.writeable  # no room


def test_a_reordered_sum_agrees_and_a_missing_term_does_not():
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (64, 4096)).astype(np.float32)
    forward = np.zeros(64, np.float32)
    for k in range(4096):
        forward += a[:, k]
    backward = np.zeros(64, np.float32)
    for k in reversed(range(4096)):
        backward += a[:, k]
    assert (forward != backward).any()
    assert disagreement(forward, backward, "float32", 1e-4, 1e-6) == ""
    assert "elements differ" in disagreement(forward - a[:, 7], backward, "float32", 1e-4, 1e-6)


def test_small_elements_count_in_their_own_scale():
    want = np.full(1000, 1e-3, np.float32)
    got = want.copy()
    got[17] = 1.2e-3
    assert "[17]" in disagreement(got, want, "float32", 1e-4, 1e-6)


def test_not_finite_values_must_match():
    want = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert disagreement(want.copy(), want, "float32", 1e-4, 1e-6) == ""
    for i, value in ((0, np.nan), (1, 1.0), (2, -np.inf), (3, 0.0)):
        got = want.copy()
        got[i] = value
        assert f"[{i}]" in disagreement(got, want, "float32", 1e-4, 1e-6)


def test_integers_are_exact_and_half_precision_is_looser():
    assert disagreement(np.array([1, 2]), np.array([1, 3]), "int64", 1.0, 1.0)
    got, want = np.array([1.0, 1.01], np.float16), np.array([1.0, 1.0], np.float16)
    assert disagreement(got, want, "float16", 1e-4, 1e-6) == ""
    bits = np.array([0x3F80, 0x3F81], np.uint16)  # bfloat16 carried as its bits
    assert disagreement(bits, np.array([0x3F80, 0x3F80], np.uint16), "bfloat16", 1e-4, 1e-6) == ""
    assert disagreement(bits, np.array([0x3F80, 0x4080], np.uint16), "bfloat16", 1e-4, 1e-6)
