"""Requests and replies of the API about models. Times are seconds (`_s`), moments ISO 8601 in UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from tuner.kernels import coverage
from tuner.records.model_store import facts
from webui.api.best_models import Answer
from webui.api.farm_models import Body
from webui.api.shown import ApiObject, Shown, shows

_DIGEST = Field(pattern="^[0-9a-f]{64}$")
_SECONDS = {"cost": "cost_s", "low": "low_s", "high": "high_s", "samples": "samples_s"}


@shows(facts.Model)
class Model(Shown):
    """A model that whoever asks may see. `latest` is the digest of its newest version."""


class ModelPage(ApiObject):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    models: list[Model]
    next: int | None


@shows(facts.ModelVersion, without=("id", "model_id"))
class ModelVersion(Shown):
    """A version. `digest` names it; `kept_bytes` of the file's `file_bytes` are here."""


class ModelVersionPage(ApiObject):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    versions: list[ModelVersion]
    next: int | None


@shows(facts.ModelTask, without=("position", "workload_id"))
class ModelTask(Shown):
    """A kernel: a run of the model calls it `calls` times, under `names`. `flops` are operations a call."""


@shows(facts.GraphCall)
class GraphCall(Shown):
    """A call in a model's graph: `inputs` are the numbers of the calls whose results it takes."""


class ModelVersionDetail(ModelVersion):
    """A version with its kernels for all kinds of targets, and the newest runs that tuned it."""

    tasks: list[ModelTask]
    runs: list[int]


class GraphReply(ApiObject):
    """The calls of a version's graph, in order."""

    calls: list[GraphCall]


class NewModelTask(Body):
    """A kernel: its function as a script, what the graph calls it, and its calls in a run.
    They are how often a run of the model calls it."""

    function: str = Field(min_length=1, max_length=1_000_000)
    names: list[str] = Field(min_length=1, max_length=1000)
    calls: int = Field(ge=1, le=10_000_000)


class NewGraphCall(Body):
    """A call of the graph: `task` is the number of its kernel among `tasks`, where it is one of them."""

    name: str = Field(max_length=500)
    task: int | None = Field(default=None, ge=0)
    inputs: list[int] = Field(default=[], max_length=1000)


class NewModel(Body):
    """A model to register, by its digest; its file may follow.
    `digest` is the file's, unless dimensions were fixed in `sizes` or the file has several models. `kind` is the
    kind of target that the kernels are for."""

    name: str = Field(min_length=1, max_length=200)
    digest: str = _DIGEST
    file_digest: str = _DIGEST
    form: str = Field(default="onnx", pattern="^(onnx|pt2|py)$")
    kind: str = Field(default="llvm", min_length=1, max_length=40)
    sizes: dict[str, int] = Field(default={}, max_length=100)
    file_bytes: int = Field(default=0, ge=0, le=4 << 30)
    readers: list[str] = Field(default=[], max_length=1000)
    tasks: list[NewModelTask] = Field(default=[], max_length=2000)
    graph: list[NewGraphCall] = Field(default=[], max_length=5000)


class Readers(Body):
    """Who may see a model beside its owner; "*" is everyone who may read."""

    readers: list[str] = Field(max_length=1000)


@shows(
    coverage.KernelCoverage,
    renamed={"how": "config", "seconds": "seconds_s", "untuned": "untuned_s", "gain": "gain_s"},
    without=("task",),
)
class KernelCoverage(Shown):
    """A kernel on a device class.
    `seconds_s` are what its calls take of a run with what a build would choose today; `gain_s` is what tuning it
    should still save. Null is not known."""

    name: str
    workload: str
    calls: int
    match: str

    @classmethod
    def of(cls, record: coverage.KernelCoverage, **more: Any) -> Self:
        task = record.task
        return super().of(record, name=task.name, workload=task.workload_key, calls=task.calls, **more)


class CoverageReply(ApiObject):
    """How well a version is tuned on a device class. `rest_s` is the time of a run outside of its kernels.
    `roofline_not_known` says why parts of the roofline are null."""

    version: str
    target: str
    device_class: str
    tuned: int
    seconds_s: float | None
    rest_s: float | None
    tuned_share: float | None
    gain_s: float | None
    roofline_not_known: str | None
    kernels: list[KernelCoverage]

    @classmethod
    def of(cls, found: coverage.ModelCoverage) -> Self:
        return cls(
            version=found.version.digest, target=found.target, device_class=found.device_class, tuned=found.tuned,
            seconds_s=found.seconds, rest_s=found.rest, tuned_share=found.tuned_share, gain_s=found.gain,
            roofline_not_known=found.not_known or None, kernels=[KernelCoverage.of(kernel) for kernel in found.kernels],
        )  # fmt: skip


class ModelConfigs(ApiObject):
    """The configs of all kernels of a version on one target, in the kernels' order."""

    version: str
    answers: list[Answer]
    misses: int


@shows(facts.ModelTime, renamed={**_SECONDS, "version_id": "version"}, without=("environment", "measured_by"))
class ModelTime(Shown):
    """The end-to-end time of a run: the median of `samples_s` and its 95 % interval.
    `version` is a digest. `joules` of a run and the mean clock are null where the box does not tell them."""

    version: str
    joules: float | None
    clock_mhz: float | None

    @classmethod
    def at(cls, time: facts.ModelTime, digest: str) -> Self:
        """The measurement of the version with a digest."""
        drawn = time.environment
        return cls.of(time, version=digest, joules=drawn.get("joules"), clock_mhz=drawn.get("clock_mhz"))


class ModelTimePage(ApiObject):
    """Newest first. `next` is the `before` of the next page; null on the last one."""

    times: list[ModelTime]
    next: int | None


@shows(facts.KernelShare, renamed={"seconds": "seconds_s"})
class KernelShare(Shown):
    """A kernel of a profiled run: its calls and seconds, and the part of the roofline that it reached."""


class ProfileReply(ApiObject):
    """Where the time of a measured run went."""

    kernels: list[KernelShare]


class NewKernelShare(Body):
    """A kernel of a profiled run."""

    name: str = Field(max_length=500)
    calls: int = Field(ge=1)
    seconds_s: float = Field(ge=0, allow_inf_nan=False)
    workload: str | None = Field(default=None, max_length=64)
    config: str = Field(default="", max_length=40)
    roofline: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class NewModelTime(Body):
    """An end-to-end measurement of a version (a digest) on a device.
    A device that the store does not know is added."""

    version: str = _DIGEST
    device: str = Field(min_length=1, max_length=200)
    device_class: str = Field(min_length=1, max_length=400)
    target: str = Field(min_length=1, max_length=4000)
    samples_s: list[float] = Field(min_length=1, max_length=10_000)
    release: str = Field(default="", max_length=100)
    tuned_share: float | None = Field(default=None, ge=0, le=1)
    kernels: list[NewKernelShare] = Field(default=[], max_length=5000)
    environment: dict[str, float] = Field(default={}, max_length=100)
    measured_at: datetime | None = None


class ProfileModel(Body):
    """Where to profile a model: the devices' key (without a tracker none), and a version's digest."""

    key: str = Field(default="", max_length=1000)
    version: str = Field(default="", max_length=64)


@shows(facts.ProfileJob, without=("version_id",), renamed={"time_id": "time"})
class ProfileJob(Shown):
    """A profile that was asked for.
    Once it is `done` it has a `time`, whose profile says where the time goes."""


class ProfileJobs(ApiObject):
    """The newest first."""

    jobs: list[ProfileJob]


class TuneModel(Body):
    """The tuning of a model.
    It has the devices' key (without a tracker none), trials a kernel, a version's digest."""

    key: str = Field(default="", max_length=1000)
    trials: int = Field(default=64, ge=1, le=1_000_000)
    version: str = Field(default="", max_length=64)
    target: str = Field(default="", max_length=4000)
