"""Arrays over memory whose owner lets nobody write: kernels read them, nothing here changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.driver import build as driver
from compiler.errors import ArgumentError
from compiler.runtime.core import dlpack
from compiler.runtime.core.device import cpu
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray, array, empty, from_dlpack, numpyasarray
from compiler.te.operation import compute, placeholder, var
from compiler.te.schedule.schedule import create_schedule


def frozen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An aligned copy that numpy lets nobody write to."""
    held = np.asarray(array(values))
    held.flags.writeable = False
    return held


@pytest.fixture(params=[16, None], ids=["fixed", "any extent"])
def twice(request: pytest.FixtureRequest) -> Module:
    extent = request.param or var("n")
    a = placeholder((extent,), name="A")
    b = compute((extent,), lambda i: a[i] * 2, name="B")
    return driver.build(create_schedule(b.op), [a, b], target="llvm", name="twice")


@pytest.mark.parametrize("share", [from_dlpack, numpyasarray])
def test_shared_and_not_copied(share: Callable[[Any], NDArray]) -> None:
    source = frozen(np.arange(16, dtype="float32"))
    taken = share(source)
    assert taken.data_ptr == source.ctypes.data
    assert not taken.is_writable
    assert array(source).is_writable
    assert empty((4,)).is_writable


def test_a_kernel_reads_it_and_may_not_write_it(twice: Module) -> None:
    source = from_dlpack(frozen(np.arange(16, dtype="float32")))
    out = empty((16,))
    for _ in range(2):
        twice(source, out)
        np.testing.assert_array_equal(out.numpy(), 2 * source.numpy())
        with pytest.raises(ArgumentError, match=r"argument 1 \(B\) is read-only, and the function writes it"):
            twice(out, source)
    assert twice.time_evaluator("twice", cpu(), 3)(source, out).mean > 0
    unaligned = from_dlpack(np.asarray(empty((17,)))[1:])
    with pytest.raises(ArgumentError, match="not a multiple of 64"):
        twice(unaligned, out)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.copyfrom(np.zeros(16)),
        lambda x: x.copyfrom(empty((16,))),
        lambda x: empty((16,)).copyto(x),
        lambda x: x.__setitem__(slice(None), 0),
        lambda x: x.__setitem__(3, 0),
        lambda x: x._create_view((4,)).copyfrom(np.zeros(4)),
    ],
)
def test_changes_are_refused(change: Callable[[NDArray], object]) -> None:
    taken = from_dlpack(frozen(np.ones(16, "float32")))
    with pytest.raises(ArgumentError, match="the array is read-only"):
        change(taken)
    assert taken.as_bytes().readonly
    assert taken.numpy().tolist() == [1] * 16


def test_handed_on_as_read_only() -> None:
    taken = from_dlpack(frozen(np.ones(16, "float32")))
    assert not np.from_dlpack(taken).flags.writeable
    assert not np.asarray(taken).flags.writeable
    assert not from_dlpack(taken).is_writable
    managed = dlpack._managed(capsule := taken.__dlpack__(max_version=(1, 0)))
    assert isinstance(managed, dlpack.VersionedTensor)
    assert managed.flags & dlpack.READ_ONLY
    del capsule
    with pytest.raises(BufferError, match="only a versioned capsule can say"):
        taken.to_dlpack()
    assert from_dlpack(taken.__dlpack__(copy=True)).is_writable
