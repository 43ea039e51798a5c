"""Runs PTX: the text that a driver would be given, a block after the other, its threads up to each barrier in turn.

Registers hold bits, as PTX has it. Each kernel is written as a Python generator. It knows the instructions that the
kernels of the tests have, and says so of any other.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

_ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)(.*?)\n\{(.*?)\n\}", re.DOTALL)
_SHARED = re.compile(r"\.shared \.align \d+ \.(\w\d+) ([\w$]+)(?:\[(\d+)\])?;")
_LINE = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.]*)\s*(.*)")
_BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "b32": 32, "u32": 32,
         "s32": 32, "f32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64}  # fmt: skip
_SHARED_BASE = 1 << 60  # where shared memory begins among generic addresses
_FLOATS = {"f16": "eH", "f32": "fI", "f64": "dQ"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class IllegalAccess(Exception):
    """A kernel reached for memory that is not there."""


Memory = Callable[[int, int], memoryview]  # (address, bytes) → where they are. Raises IllegalAccess.


@dataclass
class Kernel:
    name: str
    parameters: list[str]
    shared: int
    run: Callable[..., Iterator[Any]] = field(repr=False)

    def launch(
        self, memory: Memory, grid: Sequence[int], block: Sequence[int], values: Sequence[int], dynamic: int
    ) -> None:
        """Run the grid; `values` are the parameters' bits."""
        parameters = dict(zip(self.parameters, values, strict=True))
        for number in range(grid[0] * grid[1] * grid[2]):
            at = number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
            shared = memoryview(bytearray(self.shared + dynamic))

            def reach(address: int, size: int, shared: memoryview = shared) -> memoryview:
                if address < _SHARED_BASE:
                    return memory(address, size)
                start = address - _SHARED_BASE
                if start + size > len(shared):
                    raise IllegalAccess(f"shared memory at {start}, of {len(shared)}")
                return shared[start : start + size]

            threads = [
                self.run(reach, parameters, (x, y, z), at, tuple(block), tuple(grid))
                for z in range(block[2]) for y in range(block[1]) for x in range(block[0])
            ]  # fmt: skip
            _together(threads)


def _together(threads: list[Iterator[Any]]) -> None:
    """Run a block's threads to its end."""
    answers: list[Any] = [None] * len(threads)
    running = list(range(len(threads)))
    while running:
        asked: dict[int, Any] = {}
        for i in running:
            with suppress(StopIteration):
                asked[i] = threads[i].send(answers[i])  # type: ignore[attr-defined]
        kinds = {what[0] for what in asked.values()}
        assert len(kinds) <= 1, f"threads wait for different things: {kinds}"
        assert not asked or len(asked) == len(running) or kinds == {"bar"}, "threads ended before an exchange"
        if kinds == {"shfl"}:
            for i, (_, value, lane, _) in asked.items():
                other = i // 32 * 32 + (i % 32 ^ lane)
                answers[i] = asked[other][1] if other in asked else value
        running = list(asked)


def kernels(ptx: str) -> dict[str, Kernel]:
    """The kernels of a module."""
    text = re.sub(r"\{\s*\.reg [^;]*;([^;]*;)\s*\}", r"\1", re.sub(r"//.*", "", ptx))  # halves of a register
    places: dict[str, int] = {}
    size = 0
    for kind, name, count in _SHARED.findall(text):
        places[name] = _SHARED_BASE + size
        size += -(-_BITS[kind] // 8 * int(count or 1) // 128) * 128
    if ".extern .shared" in text:
        places["tunefarm_shared"] = _SHARED_BASE + size
    found = {}
    for name, parameters, _, body in _ENTRY.findall(text):
        names = re.findall(r"(\w+_param_\d+)", parameters)
        found[name] = Kernel(name, names, size, _Writer(name, body, places).function())
    return found


class _Writer:
    """One kernel as Python: a loop over the blocks between labels."""

    def __init__(self, name: str, body: str, places: dict[str, int]) -> None:
        self.name, self.places = name, places
        self.statements = [s.strip() for s in re.split(r";|\n(?=\s*\$)|(?<=:)\n", body) if s.strip()]
        labels = [s[:-1] for s in self.statements if s.endswith(":")]
        self.labels = {label: i + 1 for i, label in enumerate(labels)}

    def function(self) -> Callable[..., Iterator[Any]]:
        lines = ["def kernel(reach, P, tid, ctaid, ntid, nctaid):", " at = 0", " while True:", "  if at == 0:"]
        for statement in self.statements:
            if statement.startswith("."):
                continue
            if statement.endswith(":"):
                number = self.labels[statement[:-1]]
                lines += [f"   at = {number}", f"  if at == {number}:", "   pass"]
                continue
            lines += [f"   {line}" for line in self._instruction(statement)]
        lines += ["   return", " yield"]
        scope: dict[str, Any] = {"F": _float, "B": _bits, "struct": struct}
        exec("\n".join(lines), scope)
        made: Callable[..., Iterator[Any]] = scope["kernel"]
        return made

    def _instruction(self, statement: str) -> list[str]:
        match = _LINE.fullmatch(" ".join(statement.split()))
        assert match, statement
        negated, guard, op, rest = match.groups()
        operands = [o.strip() for o in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest)]
        lines = self._lines(op.split("."), operands)
        if guard is None:
            return lines
        return [f"if {'not ' if negated else ''}{self._value(guard)}:", *(f" {line}" for line in lines)]

    def _value(self, text: str) -> str:
        if text.startswith("%"):
            special, _, axis = text[1:].partition(".")
            return f"{special}[{'xyz'.index(axis)}]" if axis else special
        if text.startswith("0f"):
            return str(int(text[2:], 16))
        if text.startswith("0d"):
            return str(int(text[2:], 16))
        if text in self.places:
            return str(self.places[text])
        return text

    def _number(self, text: str, kind: str) -> str:
        """An operand read as a number of a kind."""
        value, bits = self._value(text), _BITS[kind]
        if kind in _FLOATS:
            return f"F({value}, {kind!r})"
        if kind[0] == "s":
            return f"((({value}) & {(1 << bits) - 1}) ^ {1 << (bits - 1)}) - {1 << (bits - 1)}"
        return f"(({value}) & {(1 << bits) - 1})"

    def _set(self, target: str, value: str, kind: str) -> list[str]:
        if kind in _FLOATS:
            return [f"{self._value(target)} = B({value}, {kind!r})"]
        return [f"{self._value(target)} = ({value}) & {(1 << _BITS[kind]) - 1}"]

    def _lines(self, op: list[str], o: list[str]) -> list[str]:
        name, kind = op[0], op[-1]
        n = (
            [self._number(x, kind) for x in o[1:]]
            if kind in _BITS and name not in ("ld", "st", "setp", "cvt", "shfl")
            else []
        )
        match name:
            case "ret":
                return ["return"]
            case "bra":
                return [f"at = {self.labels[o[0]]}", "continue"]
            case "bar" | "barrier":
                return ["yield ('bar',)"]
            case "mov" if "{" in "".join(o):
                return self._halves(o, _BITS[kind])
            case "mov" | "cvta":
                return self._set(o[0], self._value(o[1]), "b64" if name == "cvta" else kind.replace("f", "b"))
            case "ld" | "st":
                return self._access(op, o)
            case "add" | "sub" if kind not in ("cc",):
                return self._set(o[0], f"{n[0]} {'+' if name == 'add' else '-'} {n[1]}", kind)
            case "mul" | "mad" | "fma":
                return self._product(op, o)
            case "div" if kind in _FLOATS:
                return self._set(o[0], f"{n[0]} / {n[1]}", kind)
            case "rcp":
                return self._set(o[0], f"1.0 / {n[0]}", kind)
            case "sqrt":
                return self._set(o[0], f"{n[0]} ** 0.5", kind)
            case "neg" | "abs":
                return self._set(o[0], f"-({n[0]})" if name == "neg" else f"abs({n[0]})", kind)
            case "min" | "max":
                return self._set(o[0], f"{name}({n[0]}, {n[1]})", kind)
            case "and" | "or" | "xor":
                return self._set(o[0], f"{n[0]} {dict(zip(('and', 'or', 'xor'), '&|^'))[name]} {n[1]}", kind)
            case "not":
                return self._set(o[0], f"~{n[0]}", kind)
            case "shl" | "shr":
                amount = self._number(o[2], "u32")
                return self._set(o[0], f"({n[0]}) {'<<' if name == 'shl' else '>>'} min({amount}, 64)", kind)
            case "setp":
                a, b = self._number(o[1], kind), self._number(o[2], kind)
                sign = _COMPARE[
                    op[1].removesuffix("u") if op[1] in ("gtu", "ltu", "geu", "leu", "equ", "neu") else op[1]
                ]
                return [f"{self._value(o[0])} = int({a} {sign} {b})"]
            case "selp":
                return [f"{self._value(o[0])} = {self._value(o[1])} if {self._value(o[3])} else {self._value(o[2])}"]
            case "cvt":
                source = self._number(o[1], kind)
                if kind in _FLOATS and op[-2] not in _FLOATS:
                    source = f"{'round' if 'rni' in op else 'int'}({source})"
                return self._set(o[0], source, op[-2])
            case "shfl":
                assert op[2] == "bfly", op
                target, lane = o[0].split("|")[0], self._value(o[2])
                return [f"{self._value(target)} = yield ('shfl', {self._value(o[1])}, {lane}, {self._value(o[3])})"]
        raise NotImplementedError(f"{self.name}: {'.'.join(op)} {', '.join(o)}")

    def _halves(self, o: list[str], bits: int) -> list[str]:
        """A register taken apart, or put together."""
        first, second = (x.strip() for x in next(x for x in o if "{" in x).strip("{}").split(","))
        mask = (1 << bits // 2) - 1
        if "{" in o[0]:
            return [f"{self._value(first)} = {self._value(o[1])} & {mask}",
                    f"{self._value(second)} = {self._value(o[1])} >> {bits // 2}"]  # fmt: skip
        return [
            f"{self._value(o[0])} = ({self._value(first)} & {mask}) | ({self._value(second)} & {mask}) << {bits // 2}"
        ]

    def _product(self, op: list[str], o: list[str]) -> list[str]:
        kind = op[-1]
        a, b = self._number(o[1], kind), self._number(o[2], kind)
        added = ""
        if kind in _FLOATS:
            if len(o) > 3:
                added = f" + {self._number(o[3], kind)}"
            return self._set(o[0], f"{a} * {b}{added}", kind)
        wide = kind[0] + str(2 * _BITS[kind]) if "wide" in op else kind
        if len(o) > 3:
            added = f" + {self._number(o[3], wide)}"
        high = f" >> {_BITS[kind]}" if "hi" in op else ""
        return self._set(o[0], f"((({a}) * ({b})){high}){added}", wide)

    def _access(self, op: list[str], o: list[str]) -> list[str]:
        kind = op[-1]
        size, lanes = max(8, _BITS[kind]) // 8, next((int(x[1]) for x in op if x in ("v2", "v4")), 1)
        place, values = (o[1], o[0]) if op[0] == "ld" else (o[0], o[1])
        base, _, offset = place.strip("[]").partition("+")
        if "param" in op:
            return [f"{self._value(values)} = P[{base!r}]"]
        names = [self._value(v.strip()) for v in values.strip("{}").split(",")]
        code = f"<{lanes}{ {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[size] }".replace(" ", "")
        where = f"reach({self._value(base)} + {offset or 0}, {size * lanes})"
        if op[0] == "ld":
            return [f"{', '.join(names)}, = struct.unpack({code!r}, {where})"]
        masked = ", ".join(f"({name}) & {(1 << 8 * size) - 1}" for name in names)
        return [f"{where}[:] = struct.pack({code!r}, {masked})"]


def _float(bits: int, kind: str) -> float:
    to, of = _FLOATS[kind]
    value: float = struct.unpack(to, struct.pack(of, bits & ((1 << _BITS[kind]) - 1)))[0]
    return value


def _bits(value: float, kind: str) -> int:
    to, of = _FLOATS[kind]
    try:
        packed = struct.pack(to, value)
    except OverflowError:
        packed = struct.pack(to, float("inf") if value > 0 else float("-inf"))
    bits: int = struct.unpack(of, packed)[0]
    return bits


def argument(code: str, value: float) -> int:
    """The bits of a kernel's argument, by its code in `struct`."""
    if code == "P":
        return int(value)
    data = struct.pack(f"<{code}", value if code in "fd" else int(value))
    return int.from_bytes(data, "little")
