"""Record work once and start it as a whole, by the driver's graphs.

PyCUDA lacks them, so libcuda is called directly.

A context is current in the thread that calls, as for every driver call; `stream` is the driver's own handle, 0 the
default stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from ctypes import byref, c_char_p, c_int, c_uint64, c_void_p
from typing import Any

from compiler.errors import DeviceError

NON_BLOCKING = 1  # a stream that work on the default stream does not wait for: only such may record while others work
_RELAXED = 2  # what this thread does beside recording, such as freeing memory, is neither recorded nor refused
_HANDLE = ctypes.POINTER(c_void_p)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _HANDLE),
    "cuGraphInstantiateWithFlags": (_HANDLE, c_void_p, c_uint64),
    "cuGraphUpload": (c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuGetErrorString": (c_int, ctypes.POINTER(c_char_p)),
}


def find_graphs(open_library: Callable[[str], Any] = ctypes.CDLL) -> Graphs | None:
    """The calls, where libcuda has them (CUDA 11.4 and later)."""
    try:
        return Graphs(open_library("libcuda.so.1"))
    except (OSError, AttributeError):
        return None


class Graphs:
    """The calls of a library. Raises AttributeError when it lacks one."""

    def __init__(self, library: Any) -> None:
        self._calls: dict[str, Callable[..., int]] = {}
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
            self._calls[name] = function

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._calls[name](*arguments)
        if code:
            text = c_char_p()
            self._calls["cuGetErrorString"](code, byref(text))
            said = (text.value or b"").decode(errors="replace") or f"error {code}"
            raise DeviceError(f"{name} failed: {said}")

    def record(self, stream: int, submit: Callable[[], None]) -> int:
        """Record what `submit` submits to `stream`, without running it, and return it ready to be started.
        Raises DeviceError, with the stream as it was before, and what `submit` raises."""
        self._call("cuStreamBeginCapture_v2", stream, _RELAXED)
        graph, executable = c_void_p(), c_void_p()
        try:
            try:
                submit()
            except BaseException:
                with suppress(DeviceError):  # that what was begun is no good is known already
                    self._call("cuStreamEndCapture", stream, byref(graph))
                raise
            self._call("cuStreamEndCapture", stream, byref(graph))
            self._call("cuGraphInstantiateWithFlags", byref(executable), graph, 0)
        finally:
            if graph:
                self._call("cuGraphDestroy", graph)
        assert executable.value is not None
        try:
            self._call("cuGraphUpload", executable, stream)
        except DeviceError:
            self.destroy(executable.value)
            raise
        return executable.value

    def launch(self, executable: int, stream: int) -> None:
        """Start it behind the stream's work and its own last start."""
        self._call("cuGraphLaunch", executable, stream)

    def destroy(self, executable: int) -> None:
        """Free a graph that has run."""
        self._call("cuGraphExecDestroy", executable)
