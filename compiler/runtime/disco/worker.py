"""A worker: registers, and instructions that fill them, in order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.registry import get_global_func
from compiler.runtime.disco import messages
from compiler.runtime.load import load_module
from compiler.runtime.vm.machine import VirtualMachine

Array = npt.NDArray[Any]


class Meeting(Protocol):
    """The means by which workers exchange their parts."""

    def exchange(self, part: Array | None, in_group: bool) -> AbstractContextManager[Sequence[memoryview]]:
        """The parts of all workers, or of the own group if asked for. They stay until the block ends."""

    def fail(self, error: str) -> None:
        """Tell the others not to wait for this worker, which failed. "" tells them to wait again."""


class Home(Protocol):
    """The machine whose memory and processors a worker uses."""

    def device(self, device_type: str, number: int) -> Device:
        """A device of the worker's machine."""

    def load(self, path: str, device: Device) -> VirtualMachine:
        """A machine there that runs the executable in a file which the worker's process can read."""


class ThisMachine:
    """The machine that the worker's own process runs on."""

    def device(self, device_type: str, number: int) -> Device:
        return Device(device_type, number)

    def load(self, path: str, device: Device) -> VirtualMachine:
        return VirtualMachine(load_module(path), device)


@dataclass
class Worker:
    """One worker of `count`, in `groups` of equal size. `device`: where its arrays are, of `home`."""

    index: int
    count: int
    groups: int
    meeting: Meeting
    device: Device
    home: Home = field(default_factory=ThisMachine)

    def __post_init__(self) -> None:
        self._registers: dict[int, Any] = {}
        self._error = ""

    @property
    def group_size(self) -> int:
        """How many workers a group has."""
        return self.count // self.groups

    def execute(self, instruction: messages.Instruction) -> messages.Answer | None:
        """Execute an instruction.
        Errors are kept for the next answer; instructions that depend on one fail, too."""
        token = _current.set(self)
        try:
            return self._execute(instruction)
        except Exception as error:
            if not self._error:
                self._error = (
                    str(error) if isinstance(error, messages.DiscoError) else f"{type(error).__name__}: {error}"
                )
                self.meeting.fail(f"worker {self.index} failed: {self._error}")
            return self._answer(messages.Value()) if isinstance(instruction, messages.Get | messages.Sync) else None
        finally:
            _current.reset(token)

    def _execute(self, instruction: messages.Instruction) -> messages.Answer | None:
        match instruction:
            case messages.Find():
                self._registers[instruction.register] = get_global_func(instruction.name)
            case messages.Invocation():
                function = self._held(instruction.function)
                self._registers[instruction.register] = function(*map(self._given, instruction.args))
            case messages.Forget():
                for register in instruction.registers:
                    self._registers.pop(register, None)
            case messages.Put():
                data = np.frombuffer(bytearray(instruction.data), instruction.dtype).reshape(instruction.shape)
                held = self._registers.get(instruction.register)
                if isinstance(held, NDArray):
                    held.copyfrom(data)
                else:
                    self._registers[instruction.register] = array(data, self.device)
            case messages.Get():
                return self._answer(self._value(self._held(instruction.register)))
            case messages.Sync():
                return self._answer(messages.Value())
            case messages.StopWorker():
                pass
        return None

    def _held(self, register: int) -> Any:
        if register not in self._registers:
            raise messages.DiscoError(f"worker {self.index} holds nothing there: what should have put it there failed")
        return self._registers[register]

    def _given(self, value: messages.Argument) -> Any:
        match value:
            case messages.Ref():
                return self._held(value.register)
            case messages.WorkerDevice():
                return self.home.device(value.device_type, value.number)
        return messages.plain(value)

    def _value(self, held: Any) -> messages.Value:
        if isinstance(held, NDArray):
            data = held.numpy()
            return messages.Value(tuple(data.shape), str(held.dtype), data.tobytes())
        if held is None or isinstance(held, bool | int | float | str):
            return messages.Value(plain=held)
        raise ArgumentError(f"worker {self.index} holds a {type(held).__name__} there, which cannot be fetched")

    def _answer(self, value: messages.Value) -> messages.Answer:
        error, self._error = self._error, ""
        if error:
            self.meeting.fail("")
        return messages.Failed(error) if error else value


_current: ContextVar[Worker] = ContextVar("worker")


def current() -> Worker:
    """The worker that runs. Raises DiscoError outside of a session."""
    try:
        return _current.get()
    except LookupError:
        raise messages.DiscoError("this runs only in a worker of a disco session") from None
