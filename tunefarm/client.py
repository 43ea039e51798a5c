"""A small client of the REST API, for build jobs and scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from compiler.errors import TunefarmError, error_from_kind
from tuner.errors import TuningError as TuningError  # the errors that an app reports are rebuilt as their classes
from tuner.records.errors import RecordError as RecordError

if TYPE_CHECKING:
    from compiler.target.target import Target
    from compiler.tir.nodes import PrimFunc

_BATCH = 1000  # lookups in one request
_KEY = re.compile(r"[0-9a-f]{64}")
_ADDRESS_HINT = "write it like http://127.0.0.1:9180"


class ApiError(TunefarmError):
    """The web app does not answer, or not as the API says."""

    kind = "api"


@dataclass(frozen=True)
class BestReply:
    """The answer to a best-config query. `match` is exact, compatible, nearest (the config of another workload,
    adapted and never measured) or miss. `trace` (JSON text) and the rest are None for a miss, `cost_s` and `digest` for
    nearest, too. `as_written`: the function itself was faster than the config, and is what to build."""

    match: str
    explain: tuple[str, ...]
    trace: str | None
    cost_s: float | None
    device_class: str | None
    digest: str | None
    as_written: bool = False

    @property
    def hit(self) -> bool:
        """Whether there is a trace to build with."""
        return self.trace is not None

    @property
    def tuned(self) -> bool:
        """Whether its config was measured for this very workload."""
        return self.match in ("exact", "compatible")


@dataclass(frozen=True)
class FamilyReply:
    """A tuned family as the store has it. `record` is what `tuner.families.record.FamilyRecord` reads; `digest` names
    what is built of it."""

    name: str
    target: str
    device_class: str
    digest: str
    record: Mapping[str, Any]


@dataclass(frozen=True)
class RunReply:
    """A tuning run. `state` is queued, running, finished, failed or interrupted."""

    id: int
    name: str
    state: str
    message: str
    trials: int
    failed: int
    budget: int

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")


class Client:
    """Talks to one web app. `token` is for one that asks for it. Use as a context manager, or call `close`.

    Every method raises ApiError when the app does not answer or answers with something else, and the error that the
    app reports, as its class.
    """

    def __init__(self, base_url: str = "http://127.0.0.1:9180", token: str = "", timeout_s: float = 10.0) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(base_url=base_url.rstrip("/"), headers=headers, timeout=timeout_s)
        except httpx.InvalidURL as error:
            raise ApiError(f"{base_url!r} is no address of a web app: {error}", hint=_ADDRESS_HINT) from None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def best(
        self,
        workload: str | PrimFunc,
        target: str | Target | None = None,
        device_class: str | None = None,
        *,
        release: str | None = None,
        nearest: bool = True,
    ) -> BestReply:
        """The best config of a workload on a target. A miss is a reply, not an error.

        `workload` is an unscheduled function, its key, or a named workload such as "matmul:512,512,512:float32". Raises
        WorkloadError for any other text. `target` None is this machine, with the cores this process
        may use. Without `device_class` only a config for exactly that target is given. With `release`, only configs of
        that one count; without, and with `nearest`, a miss is answered with the nearest workload's config, adapted.
        """
        return self.best_batch([workload], target, device_class, release=release, nearest=nearest)[0]

    def best_batch(
        self,
        workloads: Sequence[str | PrimFunc],
        target: str | Target | None = None,
        device_class: str | None = None,
        *,
        release: str | None = None,
        nearest: bool = True,
    ) -> list[BestReply]:
        """`best` of many workloads, in their order: one call for all kernels of a build."""
        asked = {
            "target": _target(target),
            "device_class": device_class or None,
            "release": release,
            "nearest": nearest,
        }
        replies: list[BestReply] = []
        for start in range(0, len(workloads), _BATCH):
            lookups = [_lookup(w, nearest and release is None) for w in workloads[start : start + _BATCH]]
            data = self.post("/api/v1/best/batch", {**asked, "lookups": lookups})
            replies += [_best_reply(answer) for answer in data["answers"]]
        return replies

    def family(
        self,
        family: str,
        target: str | Target | None = None,
        device_class: str | None = None,
        *,
        release: str | None = None,
    ) -> FamilyReply | None:
        """The newest record of a family such as "dense:M,3072,768", or the one in a release; None where nobody has
        tuned it for the target (by default this machine's)."""
        asked = {"family": family, "target": _target(target), "device_class": device_class, "release": release}
        query = {name: value for name, value in asked.items() if value}
        response = self._send("GET", "/api/v1/families/best", params=query)
        if response.status_code == 404 and _error_kind(response) == "no_config":
            return None
        data = self._data(response)
        return FamilyReply(**{field.name: data[field.name] for field in fields(FamilyReply)})

    def devices(self) -> list[Mapping[str, Any]]:
        """The fleet as the web app sees it."""
        return list(self.get("/api/v1/devices")["devices"])

    def workloads(self) -> Iterator[Mapping[str, Any]]:
        """All workloads, a page at a time."""
        return self.pages("/api/v1/workloads", "workloads")

    def records(self, **wanted: Any) -> Iterator[Mapping[str, Any]]:
        """All trials that fit (`workload`, `target`, `run`, `device_class`, `device`, `status`, ...), a page at a
        time."""
        return self.pages("/api/v1/records", "trials", **wanted)

    def start_run(self, workloads: Sequence[str], **options: Any) -> RunReply:
        """Have the web app begin a run: `key` of the devices, `target` (by default theirs), `trials`, `strategy`,
        `seed`."""
        return _run_reply(self.post("/api/v1/runs", {"workloads": list(workloads), **options}))

    def run(self, run_id: int) -> RunReply:
        """How a run stands."""
        return _run_reply(self.get(f"/api/v1/runs/{run_id}"))

    def cancel_run(self, run_id: int) -> RunReply:
        """Ask for a run's end, which takes some seconds."""
        return _run_reply(self.post(f"/api/v1/runs/{run_id}/cancel"))

    def resume_run(self, run_id: int, trials: int | None = None) -> RunReply:
        """Go on with a run that was interrupted or failed, with another budget when `trials` says so."""
        return _run_reply(self.post(f"/api/v1/runs/{run_id}/resume", {"trials": trials}))

    def get(self, path: str, **query: Any) -> Mapping[str, Any]:
        """Any GET of the API, as parsed JSON."""
        return self._data(self._send("GET", path, params=query))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Any POST of the API, as parsed JSON."""
        return self._data(self._send("POST", path, json=body))

    def pages(self, path: str, name: str, **query: Any) -> Iterator[Mapping[str, Any]]:
        """What all pages of a list hold under `name`, whose cursor is `after`."""
        while True:
            data = self.get(path, **query)
            yield from data[name]
            if data["next"] is None:
                return
            query["after"] = data["next"]

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **content)
        except httpx.UnsupportedProtocol as error:
            raise ApiError(f"{self._http.base_url} is no address of a web app: {error}", hint=_ADDRESS_HINT) from None
        except httpx.HTTPError as error:
            raise ApiError(
                f"no answer from {self._http.base_url}: {error}",
                hint="is the web app running? start it with: tunefarm web",
            ) from None

    def _data(self, response: httpx.Response) -> Mapping[str, Any]:
        try:
            data = response.json()
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise ApiError(
                f"{response.url} answered {response.status_code} with something that is not a JSON object",
                hint="does the address belong to a tunefarm web app?",
            )
        if response.is_success:
            return data
        error = data.get("error", {})
        if response.status_code == 401:
            given = "Authorization" in self._http.headers
            raise ApiError(
                f"{self._http.base_url} does not know the token it was given"
                if given
                else f"{self._http.base_url} wants a token, and none was given",
                hint="it may have been revoked, or be another web app's: look at the output of `tunefarm token list`"
                if given
                else "`tunefarm token new` makes one; set TUNEFARM_API_TOKEN, or api_token in tunefarm.toml, to it",
            )
        message, hint = str(error.get("message", f"status {response.status_code}")), error.get("hint")
        rebuilt = error_from_kind(str(error.get("kind", "api")), message, hint=hint)
        raise ApiError(message, hint=hint) if type(rebuilt) is TunefarmError else rebuilt


def _error_kind(response: httpx.Response) -> str:
    """The kind of the error in an answer, "" where it has none."""
    try:
        return str(response.json()["error"]["kind"])
    except (ValueError, KeyError, TypeError):
        return ""


def _lookup(workload: str | PrimFunc, with_function: bool) -> dict[str, str]:
    """The function's text goes along, so that a nearby workload's config can be adapted to it."""
    if isinstance(workload, str):
        if _KEY.fullmatch(workload):
            return {"workload": workload}
        from tuner.workloads import WorkloadSpec

        return _lookup(WorkloadSpec.parse(workload).prim_func(), with_function)
    from compiler.tir.text.print_func import workload_key

    key = {"workload": workload_key(workload)}
    return {**key, "function": workload.script()} if with_function else key


def _best_reply(answer: Mapping[str, Any]) -> BestReply:
    names = ("match", "trace", "cost_s", "device_class", "digest")
    as_written = bool(answer.get("as_written", False))  # an older server doesn't say
    return BestReply(explain=tuple(answer["explain"]), as_written=as_written, **{name: answer[name] for name in names})


def _run_reply(data: Mapping[str, Any]) -> RunReply:
    return RunReply(**{field.name: data[field.name] for field in fields(RunReply)})


def _target(target: str | Target | None) -> str:
    if target is not None:
        return str(target)
    from tuner.devices.supplies import local_target

    return local_target()
