"""Hopper's warpgroups on the machine of `ptx_machine`: barriers in memory, copies of a matrix's tiles by a
description of it, products that read shared memory. Copies and products are done at once.

A description is the stand-in driver's own (`tensor_map`): no other program reads one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WARPGROUP = 128
_MAP = struct.Struct("<Q6I")  # address, rows, columns, bytes from row to row, rows and columns of a tile, dtype


def tensor_map(address: int, rows: int, columns: int, pitch: int, box: tuple[int, int], dtype: int) -> bytes:
    """The 128 bytes by which a kernel is told of a matrix."""
    return _MAP.pack(address, rows, columns, pitch, *box, dtype).ljust(128, b"\0")


def is_of_warpgroups(op: list[str]) -> bool:
    return op[0] in ("mbarrier", "wgmma", "fence", "setmaxnreg") or op[:3] == ["cp", "async", "bulk"]


def instruction(op: list[str], o: list[str], value: Callable[[str], str]) -> list[str]:
    """An instruction as lines of Python, in which `U` is the block's unit."""

    def address(text: str) -> str:
        base, _, offset = text.strip("[]").partition("+")
        return f"{value(base)} + {offset or 0}"

    match op[:2]:
        case ["mbarrier", "init"]:
            return [f"U.make({address(o[0])}, {value(o[1])})"]
        case ["mbarrier", "arrive"]:
            return [f"U.arrive({address(o[1])}, {value(o[2]) if 'expect_tx' in op else 0})"]
        case ["mbarrier", "try_wait"]:
            done, asked = value(o[0]), f"{address(o[1])}, {value(o[2])}"
            return [f"{done} = int(U.is_over({asked}))", f"if not {done}: yield ('try', {asked})"]
        case ["cp", "async"] if "tensor" in op:
            described, _, corner = o[1].strip("[]").partition(", ")
            column, row = (f"({value(x.strip())} ^ 1 << 31) - (1 << 31)" for x in corner.strip("{}").split(","))
            return [f"U.copy({address(o[0])}, {value(described)}, {row}, {column}, {address(o[2])})"]
        case ["wgmma", "mma_async"]:
            sums = ", ".join(value(x.strip()) for x in o[0].strip("{}").split(","))
            columns = int(op[4].partition("n")[2].partition("k")[0])
            assert o[3:7] == ["1", "1", "1", "0"], o
            operands = f"{value(o[1])}, {value(o[2])}, {columns}, {op[6]!r}, {o[7]}, ({sums})"
            return [f"{sums} = yield ('wgmma', {operands})"]
    assert op[0] in ("fence", "setmaxnreg") or op[1] in ("fence", "commit_group", "wait_group"), op
    return []


@dataclass
class _Barrier:
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0  # announced and not brought yet

    def end_if_complete(self) -> None:
        if not self.pending and not self.bytes:
            self.phase, self.pending = self.phase + 1, self.count


class WarpgroupUnit:
    """The unit of one block. `reach` gives memory at an address; shared memory begins at `base`."""

    def __init__(self, reach: Callable[[int, int], memoryview], base: int) -> None:
        self.reach, self.base = reach, base
        self.barriers: dict[int, _Barrier] = {}
        self.changes = 0  # of the barriers

    def make(self, at: int, count: int) -> None:
        self.barriers[at] = _Barrier(count, count)

    def arrive(self, at: int, expected: int) -> None:
        barrier = self.barriers[at]
        assert barrier.pending, "more arrivals than the barrier counts"
        self.changes += 1
        barrier.pending -= 1
        barrier.bytes += expected
        barrier.end_if_complete()

    def is_over(self, at: int, parity: int) -> bool:
        return self.barriers[at].phase & 1 != parity

    def copy(self, target: int, described: int, row: int, column: int, barrier: int) -> None:
        address, rows, columns, pitch, height, width, _ = _MAP.unpack_from(self.reach(described, 128))
        assert target % 1024 == 0, "a swizzled tile starts at a multiple of 1,024 bytes"
        for i in range(height):
            line = np.zeros(width, np.uint16)
            if 0 <= row + i < rows and column < columns:
                inside = min(width, columns - column)
                source = self.reach(address + (row + i) * pitch + 2 * column, 2 * inside)
                line[:inside] = np.frombuffer(source, np.uint16)
            for chunk in range(width // 8):
                place = target + i * 2 * width + 16 * (chunk ^ i % 8)
                self.reach(place, 16)[:] = line[8 * chunk : 8 * chunk + 8].tobytes()
        self.changes += 1
        self.barriers[barrier].bytes -= 2 * height * width
        self.barriers[barrier].end_if_complete()

    def multiply(self, asked: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, ...]]:
        """The sums of each thread of a warpgroup, as bits."""
        _, left, right, columns, kind, transposed, _ = asked[0]
        assert all(what[1:6] == asked[0][1:6] for what in asked)
        a = self._operand(left, 64, kind, False)
        b = self._operand(right, columns, kind, bool(transposed))
        product = a @ b.T
        for thread, what in enumerate(asked):
            warp, lane = divmod(thread, 32)
            sums = np.array(what[6], np.uint32).view(np.float32)
            for i in range(len(sums)):
                row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
                sums[i] += product[row, 8 * (i // 4) + 2 * (lane % 4) + i % 2]
            yield tuple(sums.view(np.uint32).tolist())

    def _operand(self, descriptor: int, rows: int, kind: str, transposed: bool) -> Any:
        """Sixteen elements along k of each row, as the manual's figures of canonical layouts have them."""
        start, leading, stride = (descriptor >> shift & 0x3FFF for shift in (0, 16, 32))
        assert descriptor >> 62 == 1, "the operand is to lie in swizzled rows of 128 bytes"
        found = np.zeros((rows, 16))
        for row in range(rows):
            for k in range(16):
                if transposed:
                    at = row // 64 * leading * 16 + k // 8 * stride * 16 + k % 8 * 128 + row % 64 * 2
                else:
                    at = row // 8 * stride * 16 + row % 8 * 128 + k * 2
                at += start * 16
                at ^= (at >> 7 & 7) << 4
                [bits] = struct.unpack("<H", self.reach(self.base + at, 2))
                found[row, k] = _number(bits, kind)
        return found


def _number(bits: int, kind: str) -> float:
    code, data = ("<e", struct.pack("<H", bits)) if kind == "f16" else ("<f", struct.pack("<I", bits << 16))
    [value] = struct.unpack(code, data)
    return float(value)
