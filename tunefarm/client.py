"""A small client of the REST API, for build jobs and scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from compiler.errors import TunefarmError, error_from_kind
from tunefarm.client_replies import BestReply as BestReply
from tunefarm.client_replies import (
    CoveredKernelReply,
    GraphCallReply,
    KernelTimeReply,
    ModelCoverageReply,
    ModelTaskReply,
    ModelTimeReply,
    ModelVersionReply,
    ProfileJobReply,
    reply_of,
)
from tunefarm.client_replies import FamilyReply as FamilyReply
from tunefarm.client_replies import ModelReply as ModelReply
from tunefarm.client_replies import RunReply as RunReply
from tuner.errors import TuningError as TuningError  # the errors that an app reports are rebuilt as their classes
from tuner.records.errors import RecordError as RecordError

if TYPE_CHECKING:
    from compiler.target.target import Target
    from compiler.tir.nodes import PrimFunc

_BATCH = 1000  # lookups in one request
_PART = 4 << 20  # bytes of a file in one request
_MOST_CALLS = 5000  # of a graph
_KEY = re.compile(r"[0-9a-f]{64}")
_ADDRESS_HINT = "write it like http://127.0.0.1:9180"


class ApiError(TunefarmError, kind="api"):
    """The web app does not answer, or not as the API says."""


class Client:
    """Talks to one web app.

    `token` is for one that asks for it. Use as a context manager, or call `close`. Every method raises ApiError when
    the app does not answer or answers with something else, and the error that the app reports, as its class.
    """

    def __init__(self, base_url: str = "http://127.0.0.1:9180", token: str = "", timeout_s: float = 10.0) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(base_url=base_url.rstrip("/"), headers=headers, timeout=timeout_s)
            self._kept: dict[str, tuple[str, Mapping[str, Any]]] = {}
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
        self, workload: str | PrimFunc, target: str | Target | None = None, device_class: str | None = None, *,
        release: str | None = None, nearest: bool = True, objective: str = "time",
    ) -> BestReply:  # fmt: skip
        """The best config of a workload on a target. A miss is a reply, not an error.

        `workload` is an unscheduled function, its key, or a named workload such as "matmul:512,512,512:float32". Raises
        WorkloadError for any other text. `target` None is this machine, with the cores this process
        may use. Without `device_class` only a config for exactly that target is given. With `release`, only configs of
        that one count; without, and with `nearest`, a miss is answered with the nearest workload's config, adapted.

        `objective` "energy" asks for the config that takes the fewest joules a call, of those whose device told them.
        """
        return self.best_batch([workload], target, device_class, release=release, nearest=nearest, objective=objective)[
            0
        ]

    def best_batch(
        self, workloads: Sequence[str | PrimFunc], target: str | Target | None = None, device_class: str | None = None,
        *, release: str | None = None, nearest: bool = True, objective: str = "time",
    ) -> list[BestReply]:  # fmt: skip
        """`best` of many workloads, in their order: one call for all kernels of a build."""
        asked = {
            "target": _target(target),
            "device_class": device_class or None,
            "release": release,
            "nearest": nearest,
        } | _by(objective)
        replies: list[BestReply] = []
        for start in range(0, len(workloads), _BATCH):
            lookups = [_lookup(w, nearest and release is None) for w in workloads[start : start + _BATCH]]
            data = self.post("/api/v1/best/batch", {**asked, "lookups": lookups})
            replies += [_best_reply(answer) for answer in data["answers"]]
        return replies

    def family(
        self, family: str, target: str | Target | None = None, device_class: str | None = None, *,
        release: str | None = None,
    ) -> FamilyReply | None:  # fmt: skip
        """The newest record of a family, or the one in a release.
        The family is named as "dense:M,3072,768", or by its key.

        None where nobody has tuned it for the target (by default this machine's).
        """
        asked = {"family": family, "target": _target(target), "device_class": device_class, "release": release}
        query = {name: value for name, value in asked.items() if value}
        response = self._send("GET", "/api/v1/families/best", params=query)
        if response.status_code == 404 and _error_kind(response) == "no_config":
            return None
        data = self._data(response)
        return reply_of(FamilyReply, data)

    def devices(self) -> list[Mapping[str, Any]]:
        """The fleet as the web app sees it."""
        return list(self.get("/api/v1/devices")["devices"])

    def workloads(self, called: str = "") -> Iterator[Mapping[str, Any]]:
        """Yield all workloads, or those `called` so.
        They come a page at a time. `called` is a name, or the first 8 digits of the key or more."""
        return self.pages("/api/v1/workloads", "workloads", **({"called": called} if called else {}))

    def workload(self, key: str) -> Mapping[str, Any]:
        """One workload, with its function's text, and the file that its newest run took it from."""
        return self.get(f"/api/v1/workloads/{key}")

    def records(self, **wanted: Any) -> Iterator[Mapping[str, Any]]:
        """Yield all trials that fit (`workload`, `target`, `run`, `device`, `status`, ...), a page at a time.
        `device_class` is another such word."""
        return self.pages("/api/v1/records", "trials", **wanted)

    def start_run(self, workloads: Sequence[str], **options: Any) -> RunReply:
        """Have the web app begin a run.
        `key` of the devices, `target` (by default theirs), `trials`, `strategy`, `seed`; for families `shapes`,
        `traffic` (CSV text) and `portfolio`."""
        return reply_of(RunReply, self.post("/api/v1/runs", {"workloads": list(workloads), **options}))

    def run(self, run_id: int) -> RunReply:
        """How a run stands."""
        return reply_of(RunReply, self.get(f"/api/v1/runs/{run_id}"))

    def cancel_run(self, run_id: int) -> RunReply:
        """Ask for a run's end, which takes some seconds."""
        return reply_of(RunReply, self.post(f"/api/v1/runs/{run_id}/cancel"))

    def resume_run(self, run_id: int, trials: int | None = None) -> RunReply:
        """Go on with a run that was interrupted, failed or ran out of quota; `trials` changes its budget."""
        return reply_of(RunReply, self.post(f"/api/v1/runs/{run_id}/resume", {"trials": trials}))

    def models(self) -> list[ModelReply]:
        """The newest models that this client may see, newest first."""
        return [reply_of(ModelReply, data) for data in self.get("/api/v1/models", limit=500)["models"]]

    def register_model(
        self, file: str, sizes: Mapping[str, int] | None = None, *, name: str = "", readers: Sequence[str] = (),
        upload: bool = False,
    ) -> ModelReply:  # fmt: skip
        """Register the model of a file with its kernels, as this token's own.

        The file is FILE.onnx, FILE.pt2 or FILE.py:NAME. `sizes` fix symbolic dimensions; `readers` are the names of
        tokens that may see it ("*": all). With `upload` the file is sent, too. Raises what the model's frontend raises.
        """
        from tuner.kernels.model_version import model_source, plan_of

        source = model_source(file, sizes)
        plan = plan_of(source)
        numbers = {kernel.key: number for number, kernel in enumerate(plan.kernels)}
        data = self.post(
            "/api/v1/models",
            {
                "name": name or source.name, "digest": source.digest, "file_digest": source.file_digest,
                "form": source.form, "sizes": dict(source.sizes), "file_bytes": source.file_bytes,
                "readers": list(readers),
                "tasks": [
                    {"function": kernel.func.script(), "names": list(kernel.names), "calls": kernel.weight}
                    for kernel in plan.kernels
                ],
                "graph": [
                    {
                        "name": call.name, "task": numbers.get(call.workload or ""),
                        "inputs": list(call.inputs),
                    }
                    for call in plan.graph[:_MOST_CALLS]
                ],
            },
        )  # fmt: skip
        made = reply_of(ModelReply, data)
        if upload:
            self._upload(f"/api/v1/models/{made.id}/versions/{source.digest}/file", source.path.read_bytes())
        return made

    def _upload(self, path: str, content: bytes) -> None:
        version = self.get(path.removesuffix("/file"))
        for start in range(int(version["kept_bytes"]), len(content), _PART):
            query = {"start": start}
            self._data(self._send("POST", path, params=query, content=content[start : start + _PART]))

    def model_configs(
        self, model: int, target: str | Target | None = None, device_class: str | None = None, *, version: str = "",
        release: str | None = None, objective: str = "time",
    ) -> dict[str, BestReply]:  # fmt: skip
        """Return the configs of all kernels of a model by workload key, in one request.
        Nothing is sent twice while nothing changed. `target` None is this machine; `version` is a digest, or its
        first digits; `objective` as in `best`."""
        query = {"target": _target(target), "device_class": device_class, "version": version, "release": release}
        asked = {name: text for name, text in query.items() if text} | _by(objective)
        data = self._get_once(f"/api/v1/models/{model}/configs", asked)
        return {answer["workload"]: _best_reply(answer) for answer in data["answers"]}

    def model(self, model: int) -> ModelReply:
        """One model."""
        return reply_of(ModelReply, self.get(f"/api/v1/models/{model}"))

    def model_versions(self, model: int) -> list[ModelVersionReply]:
        """Its newest versions, newest first."""
        data = self.get(f"/api/v1/models/{model}/versions", limit=500)
        return [reply_of(ModelVersionReply, version) for version in data["versions"]]

    def model_tasks(self, model: int, version: str) -> list[ModelTaskReply]:
        """The kernels of a version (a digest, or its first digits), for all kinds of targets."""
        data = self.get(f"/api/v1/models/{model}/versions/{version}")
        return [reply_of(ModelTaskReply, task) for task in data["tasks"]]

    def model_graph(self, model: int, version: str) -> list[GraphCallReply]:
        """The calls of a version's graph, in order; nothing is sent twice while nothing changed."""
        data = self._get_once(f"/api/v1/models/{model}/versions/{version}/graph", {})
        return [reply_of(GraphCallReply, call) for call in data["calls"]]

    def model_coverage(
        self, model: int, device_class: str, target: str | Target | None = None, *, version: str = ""
    ) -> ModelCoverageReply:
        """How well a model is tuned on a device class, and what tuning should still save.
        `target` None is this machine."""
        query = {"target": _target(target), "device_class": device_class, "version": version}
        data = self.get(f"/api/v1/models/{model}/coverage", **query)
        return reply_of(
            ModelCoverageReply, {**data, "kernels": [reply_of(CoveredKernelReply, each) for each in data["kernels"]]}
        )

    def model_times(self, model: int, device_class: str = "", version: str = "") -> Iterator[ModelTimeReply]:
        """Its end-to-end times, newest first, a page at a time."""
        query = {name: text for name, text in (("device_class", device_class), ("version", version)) if text}
        times = self.pages(f"/api/v1/models/{model}/times", "times", cursor="before", **query)
        return (reply_of(ModelTimeReply, time) for time in times)

    def model_profile(self, model: int, time: int) -> list[KernelTimeReply]:
        """Where the time of a measured run went; empty where nobody looked."""
        data = self.get(f"/api/v1/models/{model}/times/{time}/profile")
        return [reply_of(KernelTimeReply, kernel) for kernel in data["kernels"]]

    def profile_model(self, model: int, key: str = "", version: str = "") -> ProfileJobReply:
        """Have the web app time and profile a model, whose file it must have, on a device of `key`."""
        return reply_of(ProfileJobReply, self.post(f"/api/v1/models/{model}/profile", {"key": key, "version": version}))

    def profile_jobs(self, model: int, version: str = "") -> list[ProfileJobReply]:
        """The newest profiles of a version that were asked for, and how they ended."""
        data = self.get(f"/api/v1/models/{model}/profiles", version=version)
        return [reply_of(ProfileJobReply, job) for job in data["jobs"]]

    def set_model_readers(self, model: int, readers: Sequence[str]) -> ModelReply:
        """Say which tokens may see a model of one's own; "*" is all."""
        return reply_of(ModelReply, self.post(f"/api/v1/models/{model}/readers", {"readers": list(readers)}))

    def remove_model(self, model: int) -> ModelReply:
        """Delete a model of one's own with its versions, files, times and profiles; returns what it was."""
        return reply_of(ModelReply, self.post(f"/api/v1/models/{model}/remove"))

    def model_file(self, model: int, version: str) -> Iterator[bytes]:
        """A version's file, in pieces as they come."""
        path = f"/api/v1/models/{model}/versions/{version}/file"
        with self._streamed(path, {}) as response:
            yield from response.iter_bytes()

    def model_events(self, model: int, after: int | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Follow the events of a model: the kind of each (time, version, run, problem), and its data."""
        with self._streamed(f"/api/v1/models/{model}/events", {} if after is None else {"after": after}) as response:
            kind = ""
            for line in response.iter_lines():
                name, _, text = line.partition(": ")
                if name == "event":
                    kind = text
                elif name == "data":
                    yield kind, json.loads(text)

    def add_model_time(self, model: int, version: str, samples_s: Sequence[float], **what: Any) -> Mapping[str, Any]:
        """Keep an end-to-end time of a model: `device`, `device_class`, `target`, and what else the API takes."""
        body = {"version": version, "samples_s": list(samples_s), **what}
        return self.post(f"/api/v1/models/{model}/times", body)

    def tune_model(self, model: int, **options: Any) -> RunReply:
        """Have the web app tune a model's kernels.
        `key` of the devices, `trials` a kernel, `version`, `target`."""
        return reply_of(RunReply, self.post(f"/api/v1/models/{model}/tune", options))

    def _get_once(self, path: str, query: Mapping[str, Any]) -> Mapping[str, Any]:
        """A GET whose answer is kept with its ETag, and sent again by the app only when it changed."""
        asked = str(httpx.URL(path, params=query))
        tag, known = self._kept.get(asked, ("", {}))
        response = self._send("GET", path, params=query, headers={"If-None-Match": tag} if tag else {})
        if response.status_code == 304:
            return known
        data = self._data(response)
        if new := response.headers.get("etag"):
            self._kept[asked] = (new, data)
        return data

    def get(self, path: str, **query: Any) -> Mapping[str, Any]:
        """Any GET of the API, as parsed JSON."""
        return self._data(self._send("GET", path, params=query))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Any POST of the API, as parsed JSON."""
        return self._data(self._send("POST", path, json=body))

    def pages(self, path: str, name: str, cursor: str = "after", **query: Any) -> Iterator[Mapping[str, Any]]:
        """All items of a list's pages under `name`; `cursor` is "before" where the newest come first."""
        while True:
            data = self.get(path, **query)
            yield from data[name]
            if data["next"] is None:
                return
            query[cursor] = data["next"]

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        with self._reached():
            return self._http.request(method, path, **content)

    @contextmanager
    def _streamed(self, path: str, query: Mapping[str, Any]) -> Iterator[httpx.Response]:
        """An answer that comes in pieces; the time between two of them is not limited."""
        timeout = httpx.Timeout(self._http.timeout.connect, read=None)
        with self._reached(), self._http.stream("GET", path, params=query, timeout=timeout) as response:
            if not response.is_success:
                response.read()
                self._data(response)
            yield response

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Errors of the connection as ApiErrors."""
        try:
            yield
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


@contextmanager
def use_configs(configs: Mapping[str, BestReply], families: Iterable[FamilyReply] = ()) -> Iterator[None]:
    """Build models inside of the `with` block with these configs, by workload key.

    `model_configs` gives them. `families` serve kernels whose sizes only a call tells, as `family` gives them.
    """
    from compiler.driver.kernel_schedules import kernel_schedules
    from tunefarm.model_schedules import schedules_of
    from tuner.families.record import FamilyRecord

    with kernel_schedules(schedules_of(configs, [FamilyRecord.from_json(reply.record) for reply in families])):
        yield


def _lookup(workload: str | PrimFunc, with_function: bool) -> dict[str, str]:
    """Send the function's text along, so that a nearby workload's config can be adapted to it."""
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
    told = {name: answer[name] for name in names}
    return BestReply(explain=tuple(answer["explain"]), as_written=as_written, joules=answer.get("joules"), **told)


def _by(objective: str) -> dict[str, str]:
    """The parameters for an objective. Time has none, so that an older app accepts it, too."""
    return {} if objective == "time" else {"objective": objective}


def _target(target: str | Target | None) -> str:
    if target is not None:
        return str(target)
    from tuner.devices.supplies import local_target

    return local_target()
