"""Builds on a Dask cluster: the same builds, spread over its workers' machines.

Dask runs tasks in threads of processes that have other work. A build wants a process of its own, with a clock and a
memory limit. So every Dask worker keeps a `ProcessBuilder`, and a task there only hands the request on to it.

Whoever may send tasks to a Dask scheduler may run anything on its workers. Dask's own messages, errors included, are
pickles, so a false scheduler could run code here. It must therefore be on this machine, or prove its identity
(dask+tls://, with the certificates of Dask's configuration). Our own messages are plain data.
"""

from __future__ import annotations

import importlib
import ipaddress
import multiprocessing
import threading
from concurrent.futures import CancelledError, Executor, Future
from typing import Any

import msgspec

from rpc_server.wire.trial_messages import FailureKind
from tuner.build.process_builder import MEMORY_BYTES, ProcessBuilder
from tuner.build.worker import BuildRequest, CandidateBuild
from tuner.errors import TuningError
from tuner.toolchain import toolchain

SCHEME, TLS = "dask://", "dask+tls://"
_CONNECT_S = 10.0
_answers = msgspec.msgpack.Decoder(CandidateBuild)


class DaskBuilder:
    """A builder on the Dask cluster of the scheduler at `address`.
    That is dask://HOST:PORT, or dask+tls:// with Dask's own configuration of certificates. Raises TuningError when
    it is on another machine without TLS, unless `insecure`; when `distributed` is not installed, no scheduler
    answers, it has no workers, or they have another toolchain."""

    cores = 0  # none of this machine's, as far as one knows

    def __init__(
        self, address: str, *, memory_bytes: int = MEMORY_BYTES, connect_s: float = _CONNECT_S, insecure: bool = False
    ) -> None:
        place, protocol = _way(address, insecure)
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise TuningError(
                "building on a Dask cluster needs the package distributed", hint="pip install 'tunefarm[dask]'"
            ) from None
        try:
            self._client: Any = distributed.Client(f"{protocol}://{place}", timeout=connect_s, set_as_default=False)
        except (OSError, ValueError) as error:
            raise TuningError(
                f"no Dask scheduler answers at {place}: {error}", hint="start one: dask scheduler"
            ) from None
        self._memory = memory_bytes
        try:
            self.workers = self._admit(place, connect_s)
        except BaseException:
            self._client.close()
            raise
        self._executor: Executor = self._client.get_executor(pure=False)

    def _admit(self, place: str, wait_s: float) -> int:
        """How many builds the cluster takes at once, after a look at every worker's versions."""
        try:
            self._client.wait_for_workers(1, timeout=wait_s)
        except TimeoutError:
            raise TuningError(
                f"the Dask scheduler at {place} has no workers", hint=f"start one: dask worker {place}"
            ) from None
        try:
            found: dict[str, dict[str, str]] = self._client.run(toolchain)
        except ModuleNotFoundError as error:
            raise TuningError(
                f"a Dask worker of {place} cannot build: {error}", hint="install tunefarm where the workers run"
            ) from None
        ours = toolchain()
        for worker, theirs in sorted(found.items()):
            if theirs != ours:
                raise TuningError(
                    f"the Dask worker {worker} would build with {_show(theirs)}, this process with {_show(ours)}",
                    hint="install the same versions there",
                )
        return sum(self._client.nthreads().values())

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        outcome: Future[CandidateBuild] = Future()
        outcome.set_running_or_notify_cancel()

        def done(inner: Future[bytes]) -> None:
            try:
                outcome.set_result(_decoded(inner.result()))
            except CancelledError:
                outcome.set_result(_lost("the build was cancelled"))
            except Exception as error:  # whatever Dask says of a task that its workers could not finish
                outcome.set_result(_lost(f"the Dask cluster did not finish the build: {type(error).__name__}: {error}"))

        try:
            self._executor.submit(_build_here, request, self._memory).add_done_callback(done)
        except RuntimeError as error:
            outcome.set_result(_lost(f"the Dask cluster takes no builds: {error}"))
        return outcome

    def close(self) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()


def _way(address: str, insecure: bool) -> tuple[str, str]:
    """(HOST:PORT, protocol).
    Raises TuningError for another machine's scheduler that need not prove who it is."""
    if address.startswith(TLS):
        return address.removeprefix(TLS), "tls"
    place = address.removeprefix(SCHEME)
    if not (insecure or _is_here(place.rpartition(":")[0].strip("[]"))):
        raise TuningError(
            f"whoever answers at {place} could run code here: the connection is neither to this machine nor by TLS",
            hint=f"{TLS}{place} with Dask's configuration of certificates, an SSH tunnel to 127.0.0.1, or the setting "
            "`insecure` on a trusted network",
        )
    return place, "tcp"


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _encoded(result: CandidateBuild) -> bytes:
    return msgspec.msgpack.encode(result)


def _decoded(data: object) -> CandidateBuild:
    """A worker's answer, which is bytes. Raises TuningError for what is none."""
    try:
        if not isinstance(data, bytes):
            raise TuningError(f"a worker answered with a {type(data).__name__}")
        return _answers.decode(data)
    except msgspec.DecodeError as error:
        raise TuningError(f"a worker's answer is damaged: {error}") from None


def _lost(text: str) -> CandidateBuild:
    return CandidateBuild(None, FailureKind.BUILD, text, 0.0)


def _show(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


# ------------------------------------------------------------------------- in a Dask worker

_lock = threading.Lock()
_builders: dict[int, ProcessBuilder] = {}


def _build_here(request: BuildRequest, memory_bytes: int) -> bytes:
    """Build in a process of this worker's own; called in one of its threads. The result as `_encoded`."""
    with _lock:
        if memory_bytes not in _builders:
            # Dask's nanny starts workers as daemons, which may not have children lest those outlive them;
            # build workers end with their parent by themselves
            multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
            _builders[memory_bytes] = ProcessBuilder(memory_bytes=memory_bytes)
        builder = _builders[memory_bytes]
    return _encoded(builder.submit(request).result())
