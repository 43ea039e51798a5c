"""Saved parameters: every dtype comes back, and no bytes can do harm."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ArgumentError
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.files.params import (
    ParamsError,
    load_param_dict,
    load_param_dict_from_file,
    save_param_dict,
    save_param_dict_to_file,
)

DTYPES = [
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
]  # fmt: skip


def sealed(count: int, body: bytes) -> bytes:
    return struct.pack("<8sIIQI", b"TFPARAMS", 1, count, len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_every_dtype_and_rank(dtype: str, shape: tuple[int, ...]) -> None:
    value = empty(shape, dtype)
    view = value.as_bytes()
    view[:] = (np.arange(view.nbytes) % 2).astype(np.uint8).data
    loaded = load_param_dict(save_param_dict({"ä.weight": value}))["ä.weight"]
    assert (loaded.dtype, loaded.shape, loaded.is_aligned) == (dtype, shape, True)
    assert bytes(loaded.as_bytes()) == bytes(view)


def test_forms_of_input(tmp_path: Path) -> None:
    params = {"a": array(np.arange(4.0)), "b": np.float32(2)}
    data = save_param_dict(params)
    for form in (data, bytearray(data), memoryview(data)):
        assert list(load_param_dict(form)) == ["a", "b"]
    save_param_dict_to_file(params, str(tmp_path / "p"))
    assert load_param_dict_from_file(str(tmp_path / "p"))["a"].numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(ParamsError, match="cannot read"):
        load_param_dict_from_file(str(tmp_path / "q"))
    with pytest.raises(ArgumentError, match="from bytes"):
        load_param_dict("text")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'w'"):
        save_param_dict({"w": ["text"]})


def test_every_truncation_is_refused() -> None:
    data = save_param_dict({"a": array(np.arange(4.0)), "b": array(np.ones((2, 2), "int8"))})
    for size in range(len(data)):
        with pytest.raises(ParamsError):
            load_param_dict(data[:size])


def test_sizes_are_not_believed() -> None:
    name = struct.pack("<I", 1) + b"a" + struct.pack("<B", 7) + b"float32"
    for extents in ([1 << 40], [1 << 47, 1 << 47], [(1 << 64) - 1], [1 << 33, 0, 1 << 62]):
        with pytest.raises(ParamsError):
            load_param_dict(sealed(1, name + struct.pack(f"<B{len(extents)}Q", len(extents), *extents)))
    with pytest.raises(ParamsError):
        load_param_dict(sealed((1 << 32) - 1, b""))


@settings(max_examples=300)
@given(st.integers(0, 5), st.binary(max_size=200))
def test_any_body_loads_or_is_refused(count: int, body: bytes) -> None:
    with contextlib.suppress(ParamsError):
        load_param_dict(sealed(count, body))


@settings(max_examples=300)
@given(st.data())
def test_changed_bytes_load_or_are_refused(data: st.DataObject) -> None:
    body = bytearray(save_param_dict({"a": array(np.arange(4.0)), "b": array(np.ones((2, 2), "int8"))})[28:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ParamsError):
        load_param_dict(sealed(2, bytes(body)))
