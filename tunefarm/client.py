"""A small client of the REST API, for build jobs and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from compiler.errors import TunefarmError, error_from_kind

if TYPE_CHECKING:
    from compiler.target import Target
    from compiler.tir.nodes import PrimFunc

_ADDRESS_HINT = "write it like http://127.0.0.1:9180"


class ApiError(TunefarmError):
    """The web app does not answer, or not as the API says."""

    kind = "api"


@dataclass(frozen=True)
class BestReply:
    """The answer to a best-config query. `trace` (JSON text), `cost_s` and the rest are None for a miss."""

    match: str
    explain: tuple[str, ...]
    trace: str | None
    cost_s: float | None
    device_class: str | None
    digest: str | None

    @property
    def hit(self) -> bool:
        return self.trace is not None


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
        self, workload: str | PrimFunc, target: str | Target | None = None, device_class: str | None = None
    ) -> BestReply:
        """The best config of a workload on a target. A miss is a reply, not an error.

        `workload` is an unscheduled function or its key; `target` None is this machine, with the cores this process
        may use. Without `device_class` only a config for exactly that target is given.
        """
        query = {"workload": workload if isinstance(workload, str) else _key(workload), "target": _target(target)}
        if device_class:
            query["device_class"] = device_class
        response = self._send("/api/v1/best", query)
        data = self._data(response, also=(404,))
        if response.status_code == 404:
            return self._miss(data)
        config = data["config"]
        return BestReply(
            match=data["match"],
            explain=tuple(data["explain"]),
            trace=config["trace"],
            cost_s=config["cost_s"],
            device_class=config["device_class"],
            digest=config["digest"],
        )

    def devices(self) -> list[Mapping[str, Any]]:
        """The fleet as the web app sees it."""
        return list(self._data(self._send("/api/v1/devices", {}))["devices"])

    def get(self, path: str, **query: Any) -> Mapping[str, Any]:
        """Any GET of the API, as parsed JSON."""
        return self._data(self._send(path, query))

    def _miss(self, data: Mapping[str, Any]) -> BestReply:
        error = data.get("error", {})
        if error.get("kind") != "no_config":
            raise ApiError(f"{self._http.base_url}: {error.get('message', 'not found')}")
        explain = tuple(error.get("detail", {}).get("explain", (error.get("message", ""),)))
        return BestReply("miss", explain, None, None, None, None)

    def _send(self, path: str, query: Mapping[str, Any]) -> httpx.Response:
        try:
            return self._http.get(path, params=dict(query))
        except httpx.UnsupportedProtocol as error:
            raise ApiError(f"{self._http.base_url} is no address of a web app: {error}", hint=_ADDRESS_HINT) from None
        except httpx.HTTPError as error:
            raise ApiError(
                f"no answer from {self._http.base_url}: {error}",
                hint="is the web app running? start it with: tunefarm web",
            ) from None

    def _data(self, response: httpx.Response, also: tuple[int, ...] = ()) -> Mapping[str, Any]:
        try:
            data = response.json()
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise ApiError(
                f"{response.url} answered {response.status_code} with something that is not a JSON object",
                hint="does the address belong to a tunefarm web app?",
            )
        if response.is_success or response.status_code in also:
            return data
        error = data.get("error", {})
        if response.status_code == 401:
            raise ApiError(
                f"{self._http.base_url} wants a token, or another one than it got",
                hint="set TUNEFARM_API_TOKEN, or api_token in tunefarm.toml, to one of those in its token file",
            )
        raise error_from_kind(
            str(error.get("kind", "api")),
            str(error.get("message", f"status {response.status_code}")),
            hint=error.get("hint"),
        )


def _key(func: PrimFunc) -> str:
    from compiler.tir.printer import workload_key

    return workload_key(func)


def _target(target: str | Target | None) -> str:
    if target is not None:
        return str(target)
    from tuner.fleets import local_target

    return local_target()
