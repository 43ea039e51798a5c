"""The server's side of its relay agent.

It keeps one running, gives it the passes, and hears how its line is.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from collections.abc import Callable

import msgspec

from rpc_server.farm_link.leases import LeaseTable
from rpc_server.machine.children import PYTHON, environment
from rpc_server.relay.agent import AgentOptions, LineState
from rpc_server.relay.passes import pass_of_key, pass_of_token

logger = logging.getLogger("rpc_server.relay")

_RESTART_S = (1.0, 30.0)  # the first pause before an agent is started again, and the longest
_END_S = 5.0


class RelayLink:
    """A context manager: it runs within. `shown` is the relay for people.

    The passes are those of `leases`. A box that no tracker lends (None) has the pass of the `key` that it serves.
    `on_change` is called, from threads of this, when `trouble` changes.
    """

    def __init__(
        self, options: AgentOptions, leases: LeaseTable | None, shown: str, on_change: Callable[[], None], key: str = ""
    ) -> None:
        self._command = [*PYTHON, "-m", "rpc_server.relay.agent", msgspec.json.encode(options).decode()]
        self._leases, self._key, self._shown, self._on_change = leases, key, shown, on_change
        self._problem = "the line to it is not up yet"
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=target.__name__, daemon=True) for target in (self._keep, self._feed)
        ]

    def trouble(self) -> str:
        """Why clients cannot reach the box now, or ""."""
        return self._problem and f"the relay at {self._shown} does not serve it: {self._problem}"

    def __enter__(self) -> RelayLink:
        if self._leases is not None:
            self._leases.on_change(self._changed.set)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._changed.set()
        if (process := self._process) is not None:
            process.kill()
        for thread in self._threads:
            thread.join(_END_S)

    def _keep(self) -> None:
        """Start the agent, again when it ends."""
        env = environment()
        first_s, longest_s = _RESTART_S
        pause_s = first_s
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                self._run_agent(env)
                self._learn(self._problem or "its agent on the box ended")
            except OSError as error:
                self._learn(f"its agent on the box cannot be started: {error.strerror}")
            if time.monotonic() - started > longest_s:
                pause_s = first_s
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    def _run_agent(self, env: dict[str, str]) -> None:
        with subprocess.Popen(
            self._command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
        ) as process:
            with self._lock:
                self._process = process
            self._changed.set()
            self._listen(process)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        if self._stopping.is_set():
            process.kill()
        for line in process.stdout:
            self._learn(msgspec.json.decode(line, type=LineState).trouble)
        with self._lock:
            self._process = None

    def _learn(self, problem: str) -> None:
        if problem != self._problem and not self._stopping.is_set():
            logger.log(logging.WARNING if problem else logging.INFO, "relay %s: %s", self._shown, problem or "up")
            self._problem = problem
            self._on_change()

    def _feed(self) -> None:
        """Write the passes whenever leases change, and to every new agent."""
        while not self._stopping.is_set():
            self._changed.wait()
            self._changed.clear()
            passes = self._passes()
            with self._lock:
                if self._process is not None and self._process.stdin is not None:
                    with contextlib.suppress(OSError):  # it is gone; the next one is told
                        self._process.stdin.write(msgspec.json.encode(passes) + b"\n")

    def _passes(self) -> list[str]:
        if self._leases is None:
            return [pass_of_key(self._key).text]
        return [pass_of_token(token).text for token in self._leases.tokens()]
