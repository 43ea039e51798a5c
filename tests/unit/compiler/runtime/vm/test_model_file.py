"""Executables in files: the same bytes for the same program, mapped constants, and whatever bytes are offered."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ArtifactError
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.values import DataType, ShapeTuple
from compiler.runtime.vm import model_file
from compiler.runtime.vm.exec_builder import ExecBuilder
from compiler.runtime.vm.executable import Program
from compiler.runtime.vm.signature import FuncInfo, SignatureTensor


def program() -> Program:
    ib = ExecBuilder()
    with ib.function("main", 1, ["x"], signature=FuncInfo((SignatureTensor("float32", ("n", 3)),))):
        weights = np.arange(3000, dtype="float32")
        values = [weights, weights.copy(), np.zeros((0, 2), "int8"), np.float16(2), (1, 2), "text", 2.5, 7]
        constants = [ib.c(value) for value in values]
        constants += [ib.c(DataType("int8")), ib.c(float("inf"))]
        ib.emit_call("f", args=[ib.r(0), ib.imm(-3), *constants], dst=ib.r(1))
        ib.emit_if(ib.r(1), 1)
        ib.emit_ret(ib.r(1))
    return ib.program(target="llvm -mcpu=x", meta={"made": "here"})


def test_round_trip_and_equal_bytes() -> None:
    data = model_file.to_bytes(program())
    assert data == model_file.to_bytes(program())
    read = model_file.read(data)
    assert model_file.to_bytes(read) == data
    assert read.functions == program().functions
    assert read.target == "llvm -mcpu=x"
    for mine, its in zip(program().constants, read.constants):
        assert type(mine) is type(its)
        if isinstance(mine, NDArray):
            np.testing.assert_array_equal(mine.numpy(), its.numpy())  # type: ignore[union-attr]
        else:
            assert mine == its
    assert isinstance(read.constants[4], ShapeTuple)


def test_equal_constants_are_stored_once() -> None:
    assert len(model_file.to_bytes(program())) < 4096 + 4096 + 3000 * 4 + 2000


def test_constants_are_the_files_pages(tmp_path: Path) -> None:
    file = tmp_path / "m.tunefarm"
    model_file.write(program(), file)
    weights = model_file.read_file(file).constants[0]
    assert isinstance(weights, NDArray)
    assert weights.data_ptr % 64 == 0
    assert not weights.is_writable
    np.testing.assert_array_equal(weights.numpy(), np.arange(3000, dtype="float32"))
    assert not list(tmp_path.glob("*.part"))


def test_damaged_constants_are_found_by_verify() -> None:
    data = bytearray(model_file.to_bytes(program()))
    at = data.rindex(np.arange(2990, 3000, dtype="float32").tobytes())
    data[at] ^= 1
    model_file.read(bytes(data))
    with pytest.raises(ArtifactError, match="does not match its sha256"):
        model_file.verify(bytes(data))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_cost_an_error(data: st.DataObject) -> None:
    good = model_file.to_bytes(program())
    if data.draw(st.booleans()):
        bad = good[: data.draw(st.integers(0, len(good) - 1))]
    else:
        changed = bytearray(good)
        for _ in range(data.draw(st.integers(1, 4))):
            changed[data.draw(st.integers(0, 6000))] = data.draw(st.integers(0, 255))
        bad = bytes(changed)
    with contextlib.suppress(ArtifactError):
        model_file.read(bad)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ArtifactError, match="too few"):
        model_file.read_file(tmp_path / "empty")
    with pytest.raises(ArtifactError, match="no tunefarm model"):
        model_file.read(b"x" * 100)
    assert array(np.ones(1)).is_writable
