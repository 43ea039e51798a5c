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


MAGIC = struct.pack("<QQ", 0xF7E58D4F05049CB7, 0)


def with_checksum(count: int, body: bytes) -> bytes:
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
    for size in {*range(len(data))} - {len(data) - 12}:  # without the checksum it is a file as TVM writes it
        with pytest.raises(ParamsError):
            load_param_dict(data[:size])


def test_sizes_are_not_believed() -> None:
    name = struct.pack("<I", 1) + b"a" + struct.pack("<B", 7) + b"float32"
    for extents in ([1 << 40], [1 << 47, 1 << 47], [(1 << 64) - 1], [1 << 33, 0, 1 << 62]):
        with pytest.raises(ParamsError):
            load_param_dict(with_checksum(1, name + struct.pack(f"<B{len(extents)}Q", len(extents), *extents)))
    with pytest.raises(ParamsError):
        load_param_dict(with_checksum((1 << 32) - 1, b""))


@settings(max_examples=300)
@given(st.integers(0, 5), st.binary(max_size=200))
def test_any_body_loads_or_is_refused(count: int, body: bytes) -> None:
    for whole in (with_checksum(count, body), MAGIC + body, MAGIC + struct.pack("<Q", count) + body):
        with contextlib.suppress(ParamsError):
            load_param_dict(whole)


@settings(max_examples=300)
@given(st.data())
def test_changed_bytes_load_or_are_refused(data: st.DataObject) -> None:
    body = bytearray(save_param_dict({"a": array(np.arange(4.0)), "b": array(np.ones((2, 2), "int8"))})[:-12])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(16, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ParamsError):
        load_param_dict(bytes(body))


def test_a_changed_byte_is_noticed() -> None:
    data = bytearray(save_param_dict({"a": array(np.arange(4.0))}))
    data[-20] ^= 1
    with pytest.raises(ParamsError, match="checksum"):
        load_param_dict(bytes(data))


def test_files_of_before() -> None:
    name = struct.pack("<I", 1) + b"a" + struct.pack("<B", 7) + b"float32"
    body = name + struct.pack("<BQ", 1, 2) + np.array([1, 2], "float32").tobytes()
    assert load_param_dict(with_checksum(1, body))["a"].numpy().tolist() == [1, 2]


# Written by TVM 0.17: {"w": float32 [[1, 2]], "ok": bool [True, False], "h": float16 0.5}
FROM_TVM = bytes.fromhex(
    "b79c04054f8de5f70000000000000000030000000000000001000000000000006802000000000000006f6b01000000000000"
    "007703000000000000003fa1b496f0405edd0000000000000000010000000000000000000000021001000200000000000000"
    "00383fa1b496f0405edd00000000000000000100000000000000010000000101010002000000000000000200000000000000"
    "01003fa1b496f0405edd00000000000000000100000000000000020000000220010001000000000000000200000000000000"
    "08000000000000000000803f00000040"
)


def test_files_of_apache_tvm() -> None:
    loaded = load_param_dict(FROM_TVM)
    assert {name: (value.dtype, value.numpy().tolist()) for name, value in loaded.items()} == {
        "w": ("float32", [[1, 2]]), "ok": ("bool", [True, False]), "h": ("float16", 0.5),
    }  # fmt: skip
    again = save_param_dict(loaded)
    assert again[: len(FROM_TVM)] == FROM_TVM, "TVM reads what is written here"
