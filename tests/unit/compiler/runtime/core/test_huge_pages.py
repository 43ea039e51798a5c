"""Large arrays and temporaries begin at huge pages, and the system is asked for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.runtime.core import native
from compiler.runtime.core.ndarray import empty

HUGE = 2 << 20
OFFERED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def asked_for(address: int) -> bool:
    """Whether the mapping that holds an address has the flag `hg`: huge pages wanted."""
    within = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head:
            low, high = (int(end, 16) for end in head.split("-"))
            within = low <= address < high
        elif within and head == "VmFlags:":
            return "hg" in line.split()
    raise AssertionError(f"no mapping holds {address:#x}")


def offered() -> bool:
    return OFFERED.exists() and Path("/proc/self/smaps").exists()


def test_a_large_array_begins_at_one() -> None:
    large = empty((1024, 1025), "float32")
    assert large.data_ptr % HUGE == 0
    small = empty((64, 64), "float32")
    assert small.data_ptr % 64 == 0


@pytest.mark.parametrize("size", [(2 << 20) + 1, 3 << 20, 5 << 20, (8 << 20) - 64])
def test_a_large_temporary_begins_at_one(size: int) -> None:
    block = native.load().alloc(size)
    try:
        assert block is not None
        assert (block - 64) % HUGE == 0  # what is known of a block lies before it
    finally:
        native.load().free(block)


@pytest.mark.skipif(not offered(), reason="this system has no transparent huge pages")
def test_the_system_is_asked_for_them() -> None:
    large = empty((1024, 1025), "float32")
    assert asked_for(large.data_ptr)
    block = native.load().alloc(9 << 20)
    try:
        assert block is not None
        assert asked_for(block)
    finally:
        native.load().free(block)
