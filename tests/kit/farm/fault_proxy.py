"""A TCP proxy whose network can be cut: bytes vanish without either end being told, as behind a dead switch."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

_CHUNK = 1 << 16


class CuttableProxy:
    """Listens on `port` of loopback and passes everything on to `target`. One thread; `close` ends it."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._peer: dict[socket.socket, socket.socket] = {}
        self._cut = self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """From now on nothing gets through; connections stay up as far as their ends can tell."""
        self._cut = True

    def heal(self) -> None:
        """Connections that lost bytes break, new ones work."""
        self._cut = False

    def close(self) -> None:
        self._ended = True
        self._thread.join()

    def _run(self) -> None:
        was_cut = False
        while not self._ended:
            if was_cut and not self._cut:
                for sock in list(self._peer):
                    self._drop(sock)
            was_cut = self._cut
            for key, _ in self._selector.select(0.05):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is self._listener:
                    self._accept()
                elif sock in self._peer:
                    self._pass_on(sock)
        for sock in list(self._peer):
            self._drop(sock)
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=5.0)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.settimeout(5.0)
            self._peer[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(_CHUNK)
            if data and not self._cut:
                self._peer[sock].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        other = self._peer.pop(sock, None)
        for end in (sock, other):
            if end is not None:
                self._peer.pop(end, None)
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(end)
                end.close()
