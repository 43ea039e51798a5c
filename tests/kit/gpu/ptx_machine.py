"""Runs PTX: the text that a driver would be given, a block after the other, its threads up to each barrier in turn.

Registers hold bits, as PTX has it. Each kernel is written as a Python generator. It knows the instructions that the
kernels of the tests have, and says so of any other.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kit.gpu.ptx_warpgroup_machine import WARPGROUP, WarpgroupUnit, instruction, is_of_warpgroups
from tests.kit.gpu.ptx_warps import EXCHANGES

_ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)(.*?)\n\{(.*?)\n\}", re.DOTALL)
_SHARED = re.compile(r"\.shared \.align \d+ \.(\w\d+) ([\w$]+)(?:\[(\d+)\])?;")
_LINE = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.:]*)\s*(.*)")
_BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "b32": 32, "u32": 32,
         "s32": 32, "f32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64}  # fmt: skip
_SHARED_BASE = 1 << 60  # where shared memory begins among generic addresses
_MAPS_BASE = 1 << 61  # and where parameters that are descriptions of matrices do
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
        self, memory: Memory, grid: Sequence[int], block: Sequence[int], values: Sequence[int | bytes], dynamic: int
    ) -> None:
        """Run the grid; `values` are the parameters' bits, of descriptions of matrices their bytes."""
        maps = memoryview(b"".join(value for value in values if isinstance(value, bytes)))
        parameters = dict(zip(self.parameters, _addresses(values), strict=True))
        for number in range(grid[0] * grid[1] * grid[2]):
            at = number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
            shared = memoryview(bytearray(self.shared + dynamic))

            def reach(address: int, size: int, shared: memoryview = shared) -> memoryview:
                if address < _SHARED_BASE:
                    return memory(address, size)
                if address >= _MAPS_BASE:
                    return maps[address - _MAPS_BASE :][:size]
                start = address - _SHARED_BASE
                if start + size > len(shared):
                    raise IllegalAccess(f"shared memory at {start}, of {len(shared)}")
                return shared[start : start + size]

            unit = WarpgroupUnit(reach, _SHARED_BASE)
            threads = [
                self.run(reach, parameters, unit, (x, y, z), at, tuple(block), tuple(grid))
                for z in range(block[2]) for y in range(block[1]) for x in range(block[0])
            ]  # fmt: skip
            _together(threads, unit)


def _addresses(values: Sequence[int | bytes]) -> Iterator[int]:
    start = _MAPS_BASE
    for value in values:
        yield start if isinstance(value, bytes) else value
        start += len(value) if isinstance(value, bytes) else 0


def _together(threads: list[Iterator[Any]], unit: WarpgroupUnit) -> None:
    """Run a block's threads to its end."""
    asked: dict[int, Any] = {}  # by threads that wait
    ready: dict[int, Any] = dict.fromkeys(range(len(threads)))  # the others, and what they are answered
    running = set(ready)
    seen: Any = None
    while running:
        for i, answer in ready.items():
            try:
                asked[i] = threads[i].send(answer)  # type: ignore[attr-defined]
            except StopIteration:
                running.remove(i)
        before, seen = seen, (unit.changes, dict(asked))
        ready = _answers(asked, running, unit)
        assert ready or not running, f"threads wait for different things: { ({what[0] for what in asked.values()}) }"
        assert seen != before or any(asked[i][0] != "try" for i in ready), "nothing ends the phases threads wait for"
        for i in ready:
            del asked[i]


def _answers(asked: dict[int, Any], running: set[int], unit: WarpgroupUnit) -> dict[int, Any]:
    """Who may go on, and what each is told."""
    found: dict[int, Any] = {i: None for i, what in asked.items() if what[0] == "try"}
    if running and all(i in asked and asked[i][0] == "bar" for i in running):
        found |= dict.fromkeys(running)
    for size, kind in ((32, "shfl"), *((32, kind) for kind in EXCHANGES), (WARPGROUP, "wgmma")):
        for group in sorted({i // size for i, what in asked.items() if what[0] == kind}):
            members = [i for i in running if i // size == group]
            if any(i not in asked or asked[i][0] != kind for i in members):
                continue
            if kind in EXCHANGES:
                found |= zip(sorted(members), EXCHANGES[kind]([asked[i] for i in sorted(members)]), strict=True)
                continue
            if kind == "wgmma":
                found |= zip(members, unit.multiply([asked[i] for i in members]), strict=True)
                continue
            for i in members:
                _, value, lane, _ = asked[i]
                other = i // 32 * 32 + (i % 32 ^ lane)
                found[i] = asked[other][1] if other in asked else value
    return found


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
        found[name] = Kernel(name, names, size, _Writer(name, body, places, names).function())
    return found


class _Writer:
    """One kernel as Python: a loop over the blocks between labels."""

    def __init__(self, name: str, body: str, places: dict[str, int], parameters: Sequence[str] = ()) -> None:
        self.name, self.places, self.parameters = name, places, parameters
        self.statements = [s.strip() for s in re.split(r";|\n(?=\s*\$)|(?<=:)\n", body) if s.strip()]
        labels = [s[:-1] for s in self.statements if s.endswith(":")]
        self.labels = {label: i + 1 for i, label in enumerate(labels)}

    def function(self) -> Callable[..., Iterator[Any]]:
        head = "def kernel(reach, P, U, tid, ctaid, ntid, nctaid):"
        lines = [head, " begun, groups = [], []", " at = 0", " while True:", "  if at == 0:"]
        for statement in self.statements:
            if statement.startswith("."):
                continue
            if statement.endswith(":"):
                number = self.labels[statement[:-1]]
                lines += [f"   at = {number}", f"  if at == {number}:", "   pass"]
                continue
            lines += [f"   {line}" for line in self._instruction(statement)]
        lines += ["   return", " yield"]
        scope: dict[str, Any] = {"F": _float, "B": _bits, "permuted": _permuted, "struct": struct}
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
        if text in self.parameters:
            return f"P[{text!r}]"
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
        if is_of_warpgroups(op):
            return instruction(op, o, self._value)
        name, kind = op[0], op[-1]
        if kind == "f16x2":
            return self._halfwise(op, o)
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
            case "bfe" if kind[0] == "u":
                first, count = self._number(o[2], "u32"), self._number(o[3], "u32")
                return self._set(o[0], f"({n[0]} >> {first}) & ((1 << {count}) - 1)", kind)
            case "setp":
                a, b = self._number(o[1], kind), self._number(o[2], kind)
                sign = _COMPARE[
                    op[1].removesuffix("u") if op[1] in ("gtu", "ltu", "geu", "leu", "equ", "neu") else op[1]
                ]
                return [f"{self._value(o[0])} = int({a} {sign} {b})"]
            case "selp":
                return [f"{self._value(o[0])} = {self._value(o[1])} if {self._value(o[3])} else {self._value(o[2])}"]
            case "cvt" if op[-2] == "f16x2":
                first, second = (f"B(F({self._value(x)}, {kind!r}), 'f16')" for x in o[1:])
                return [f"{self._value(o[0])} = {second} | {first} << 16"]
            case "cvt":
                source = self._number(o[1], kind)
                if kind in _FLOATS and op[-2] not in _FLOATS:
                    source = f"{'round' if 'rni' in op else 'int'}({source})"
                if op[-2] in ("s8", "s16"):  # the sign fills the register
                    narrow = f"_{o[0][1:]}"
                    return [f"{narrow} = {source}", *self._set(o[0], self._number(narrow, op[-2]), "b32")]
                return self._set(o[0], source, op[-2])
            case "prmt":
                a, b, picked = (self._value(x.removesuffix("U")) for x in o[1:])
                return [f"{self._value(o[0])} = permuted({a} & 0xFFFFFFFF | ({b} & 0xFFFFFFFF) << 32, {picked})"]
            case "cp":
                return self._copy(op, o)
            case "ldmatrix":
                base, _, offset = o[1].strip("[]").partition("+")
                row = f"bytes(reach({self._value(base)} + {offset or 0}, 16))"
                return [f"{self._registers(o[0])} = yield ('ldmatrix', {row}, {'trans' in op})"]
            case "mma":
                given = ", ".join(f"({self._registers(x)})" for x in o[1:])
                return [f"{self._registers(o[0])} = yield ('mma', {tuple(op[-4:])}, {given})"]
            case "shfl":
                assert op[2] == "bfly", op
                target, lane = o[0].split("|")[0], self._value(o[2])
                return [f"{self._value(target)} = yield ('shfl', {self._value(o[1])}, {lane}, {self._value(o[3])})"]
        raise NotImplementedError(f"{self.name}: {'.'.join(op)} {', '.join(o)}")

    def _halfwise(self, op: list[str], o: list[str]) -> list[str]:
        """Arithmetic on both halves of registers."""
        x, y, *z = ([f"F({self._value(x)} >> {at}, 'f16')" for at in (0, 16)] for x in o[1:])
        if op[0] == "setp":
            sign, targets = _COMPARE[op[1].removesuffix("u")], map(self._value, o[0].split("|"))
            return [f"{target} = int({a} {sign} {b})" for target, a, b in zip(targets, x, y)]
        made = []
        for at in (0, 1):
            match op[0]:
                case "fma":
                    made.append(f"{x[at]} * {y[at]} + {z[0][at]}")
                case "min" | "max":
                    made.append(f"{op[0]}({x[at]}, {y[at]})")
                case name:
                    made.append(f"{x[at]} { {'add': '+', 'sub': '-', 'mul': '*'}[name] } {y[at]}")
        return [f"{self._value(o[0])} = B({made[0]}, 'f16') | B({made[1]}, 'f16') << 16"]

    def _registers(self, text: str) -> str:
        return ", ".join(self._value(x.strip()) for x in text.strip("{}").split(","))

    def _copy(self, op: list[str], o: list[str]) -> list[str]:
        """An asynchronous copy: of what is there now, seen once its group is waited for."""
        if op[2] == "commit_group":
            return ["groups.append(begun)", "begun = []"]
        if op[2] == "wait_group":
            arrive = "for target, data in groups.pop(0): reach(target, len(data))[:] = data"
            return [f"while len(groups) > {o[0]}:", f" {arrive}"]
        (target, source), size = (x.strip("[]").partition("+")[::2] for x in o[:2]), o[2]
        to, of = (f"{self._value(base)} + {offset or 0}" for base, offset in (target, source))
        count = self._value(o[3]) if len(o) > 3 else size
        return [
            f"begun.append(({to}, bytes(reach({of}, {count})).ljust({size}, b'\\0') if {count} else bytes({size})))"
        ]

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


def _permuted(data: int, picked: int) -> int:
    """Four of eight bytes, by their numbers in the nibbles of `picked`; of one whose nibble's highest bit is set, the
    sign eight times."""
    found = 0
    for i in range(4):
        nibble = picked >> 4 * i & 15
        byte = data >> 8 * (nibble & 7) & 255
        found |= (byte if nibble < 8 else 255 * (byte >> 7)) << 8 * i
    return found


def argument(code: str, value: float | bytes) -> int | bytes:
    """The bits of a kernel's argument, by its code in `struct`."""
    if isinstance(value, bytes):
        return value
    if code == "P":
        return int(value)
    data = struct.pack(f"<{code}", value if code in "fd" else int(value))
    return int.from_bytes(data, "little")
