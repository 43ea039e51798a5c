"""Values of packed functions besides arrays and numbers: strings, shapes, data types."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from compiler.dtype import DType, parse_dtype
from compiler.errors import ArgumentError


class String(str):
    """A string object: a str in every respect."""

    __slots__ = ()

    def __new__(cls, content: object = "") -> String:
        return super().__new__(cls, content)


class ShapeTuple(tuple[int, ...]):
    """A shape: non-negative integers. Equal to the tuple or list of them. Raises ArgumentError for anything else."""

    __slots__ = ()

    def __new__(cls, shape: Iterable[int]) -> ShapeTuple:
        items = tuple(shape)
        for item in items:
            if isinstance(item, bool) or not hasattr(item, "__index__") or item.__index__() < 0:
                raise ArgumentError(f"the shape {items} is not made of non-negative integers")
        return super().__new__(cls, (item.__index__() for item in items))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return str(list(self))


class DataTypeCode(IntEnum):
    """DLPack's codes of kinds of numbers."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4


_CODES = {
    "int": DataTypeCode.INT,
    "uint": DataTypeCode.UINT,
    "bool": DataTypeCode.UINT,
    "float": DataTypeCode.FLOAT,
    "bfloat": DataTypeCode.BFLOAT,
    "handle": DataTypeCode.HANDLE,
}


_BITS_OMITTED = {"int": "int32", "uint": "uint32", "float": "float32"}


class DataType(str):
    """A dtype such as "float32x4", equal to its text, with `type_code`, `bits` and `lanes`.

    A bool is an unsigned integer of one bit; "int", "uint" and "float" have 32 bits. Raises IRError for an unknown
    dtype.
    """

    _parsed: DType

    def __new__(cls, type_str: str) -> DataType:
        parsed = parse_dtype(_BITS_OMITTED.get(str(type_str), str(type_str)))
        made = super().__new__(cls, str(parsed))
        made._parsed = parsed
        return made

    @property
    def type_code(self) -> DataTypeCode:
        return _CODES[self._parsed.code]

    @property
    def bits(self) -> int:
        """Bits of one lane."""
        return 1 if self._parsed.code == "bool" else self._parsed.bits

    @property
    def lanes(self) -> int:
        return self._parsed.lanes

    def __repr__(self) -> str:
        return f'DataType("{self}")'
