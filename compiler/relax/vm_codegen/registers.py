"""Assign registers of a function. A register is used again when nothing reads its value any more.

Memory of a value is thus freed soon after its last use, and frames stay small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.runtime.vm.bytecode import MACHINE, VOID, Operand, Register


@dataclass(frozen=True, slots=True)
class DraftInstruction:
    """An instruction before registers are shared, when there are as many as values.

    `name` is the called function, or "ret", "if" or "goto"; `offset` belongs to the latter two.
    """

    name: str
    args: tuple[Operand, ...] = ()
    to: Register = VOID
    offset: int = 0
    is_call: bool = True

    def renamed(self, registers: Mapping[Register, Register]) -> DraftInstruction:
        """The note with other registers."""
        args = tuple([registers.get(arg, arg) if isinstance(arg, Register) else arg for arg in self.args])
        return DraftInstruction(self.name, args, registers.get(self.to, self.to), self.offset, self.is_call)


def with_few_registers(code: Sequence[DraftInstruction], inputs: int) -> list[DraftInstruction]:
    """The same instructions over fewer registers; the first `inputs` stay where they are.

    Jumps lead forward only, so a register is free after the last instruction that names it.
    """
    last: dict[Register, int] = {}
    for position, note in enumerate(code):
        for register in _registers(note):
            last[register] = position
    places = {Register(index): Register(index) for index in range(inputs)}
    free: list[Register] = []
    count = inputs
    for position, note in enumerate(code):
        ending = [register for register in dict.fromkeys(_registers(note)) if last[register] == position]
        free += [places[register] for register in ending if register in places and register != note.to]
        if note.to not in (VOID, MACHINE) and note.to not in places:
            if not free:
                free.append(Register(count))
                count += 1
            places[note.to] = free.pop()
        if note.to in ending:
            free.append(places[note.to])
    return [note.renamed(places) for note in code]


def _registers(note: DraftInstruction) -> list[Register]:
    used = [arg for arg in (*note.args, note.to) if isinstance(arg, Register)]
    return [register for register in used if register not in (VOID, MACHINE)]
