"""A disco session whose workers are boxes of a farm."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.errors import ArgumentError
from compiler.runtime.core.device import Device
from compiler.runtime.disco.session import Session, check_workers
from compiler.runtime.disco.threads import Threads
from compiler.runtime.vm.machine import VirtualMachine
from rpc_server.client.session import RPCSession


@dataclass(frozen=True)
class _Box:
    """A box as a worker's home: files are uploaded before they are loaded."""

    session: RPCSession

    def device(self, device_type: str, number: int) -> Device:
        return self.session.device(device_type, number)

    def load(self, path: str, device: Device) -> VirtualMachine:
        self.session.upload(path)
        return VirtualMachine(self.session.load_module(Path(path).name), device)


class FarmSession(Session):
    """A session with one worker for each session of `remotes`, as `TrackerSession.request` gives them.

    Arrays and executables stay on the boxes; what collective operations exchange goes through this process. A box that
    is lost is an error that names its worker. `device_type`: where the arrays are. `shutdown` closes the `remotes`.
    Raises ArgumentError where they are none, or do not divide into `num_groups`.
    """

    def __init__(self, remotes: Sequence[RPCSession], num_groups: int = 1, device_type: str = "cpu") -> None:
        check_workers(len(remotes), num_groups)
        if len(set(map(id, remotes))) != len(remotes):
            raise ArgumentError("two workers would share one session", hint="request a session for each worker")
        self._remotes = tuple(remotes)
        places = [(remote.device(device_type), _Box(remote)) for remote in remotes]
        super().__init__(Threads(len(places), num_groups, places), len(places), num_groups)

    def shutdown(self) -> None:
        """End the workers, and the sessions on the boxes, whose leases go back."""
        with contextlib.ExitStack() as stack:
            for remote in self._remotes:
                stack.callback(remote.close)
            super().shutdown()
