"""Bounds of what messages carry: every number, text and list of every message has one of these types.

A number is checked when it is decoded. So code behind the codec never sees an infinite time, a size beyond any
machine or a NaN. (A test walks over all messages and finds fields without bounds.) Outgoing messages are not
checked, because the receiver refuses bad ones.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Period = Annotated[float, Meta(ge=0.01, le=1e6)]
"""Seconds between two signs of life, or to wait for one."""
Milliseconds = Annotated[float, Meta(ge=0, le=1e9)]
WholeMilliseconds = Annotated[int, Meta(ge=0, le=10**9)]
Rate = Annotated[float, Meta(ge=0, le=1e18)]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
NotNegative = Annotated[float, Meta(ge=0, le=1e300)]
UnixTime = Annotated[float, Meta(ge=-1e12, le=1e12)]

Count = Annotated[int, Meta(ge=0, le=2**53)]
Tries = Annotated[int, Meta(ge=0, le=10**9)]
Bytes = Annotated[int, Meta(ge=0, le=2**53)]
Handle = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Index = Annotated[int, Meta(ge=0, le=2**16)]
ProcessId = Annotated[int, Meta(ge=0, le=2**31)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
TokenNumber = Annotated[int, Meta(ge=0, le=2**53)]
SeenNumber = Annotated[int, Meta(ge=0, le=2**52)]  # what a box says it has seen: the next ones are numbers still

Label = Annotated[str, Meta(max_length=200)]
"""A name that may be empty."""
Path = Annotated[str, Meta(max_length=4096)]
Prose = Annotated[str, Meta(max_length=1 << 16)]
Secret = Annotated[bytes, Meta(max_length=256)]
Dtype = Annotated[str, Meta(max_length=64)]
Shape = Annotated[tuple[Bytes, ...], Meta(max_length=64)]
OpenShape = Annotated[tuple[Bytes | Label, ...], Meta(max_length=64)]
"""A shape in which some extents have only names."""
Positions = Annotated[tuple[Index, ...], Meta(max_length=4096)]
"""Places of arguments."""
Digests = Annotated[tuple[Label, ...], Meta(max_length=4096)]
