"""Models as the store takes and gives them: frozen data.

Times are seconds, moments aware datetimes in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tuner.records.model import NewWorkload

EVERYONE = "*"
"""Among a model's readers: whoever may read the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who asks.
    `name` is an owner's or a reader's name; `everything` is for programs that have the whole store. With `only`,
    models of other names are not seen."""

    name: str = ""
    everything: bool = False
    only: tuple[str, ...] = ()


ANYONE = Viewer(everything=True)
"""Whoever has the store itself, as the command line does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModelTask:
    """A kernel that a run of the model calls `calls` times, under `names` in its graph."""

    workload: NewWorkload
    names: tuple[str, ...]
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCall:
    """A call in the picture of a model's graph.
    It has the kernel's name, its workload's key if it is tuned, and the numbers of the calls whose results it takes."""

    name: str
    workload: str | None
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModelVersion:
    """A model to register.
    `form` is the file's kind ("onnx", "pt2", "py"), `kind` the kind of target that `tasks` are for. `digest` names the
    version: of the file, and of the dimensions in `sizes` where some were fixed."""

    name: str
    digest: str
    file_digest: str
    form: str
    kind: str
    tasks: tuple[NewModelTask, ...]
    graph: tuple[GraphCall, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    file_bytes: int = 0
    owner: str = ""
    readers: tuple[str, ...] = (EVERYONE,)
    created_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """`versions` are counted; the latest has the digest `latest`."""

    id: int
    owner: str
    name: str
    readers: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    versions: int
    latest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """`kept`: the whole file lies in the store."""

    id: int
    model_id: int
    model: str
    digest: str
    file_digest: str
    form: str
    sizes: Mapping[str, int]
    file_bytes: int
    kept_bytes: int
    created_by: str
    created_at: datetime

    @property
    def kept(self) -> bool:
        return 0 < self.file_bytes == self.kept_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTask:
    """A kernel of a version: its workload's key, name and operations a call, and how often a run calls it."""

    position: int
    kind: str
    workload_id: int
    workload_key: str
    workload_name: str
    flops: float | None
    names: tuple[str, ...]
    calls: int

    @property
    def name(self) -> str:
        """The name of its first call."""
        return self.names[0] if self.names else self.workload_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTimeFacts:
    """The facts in a measurement's row. A new column is a field here and a migration.

    `samples` are seconds a run; `release` names the release whose configs it was built with ("" for the best there
    were). `tuned_share` is the part of the kernels' time that is of tuned kernels, from 0 to 1.
    """

    samples: tuple[float, ...]
    release: str = ""
    toolchain: str = ""
    tuned_share: float | None = None
    environment: Mapping[str, float] = field(default_factory=dict)
    measured_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelShare:
    """A kernel in a profile: its calls and seconds in one run of the model.
    `roofline` is the part of what the device could do that it reached; `config` says what it was built with ("hit",
    "near", "as written", "untuned")."""

    name: str
    calls: int
    seconds: float
    workload: str | None = None
    config: str = ""
    roofline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewModelTime(ModelTimeFacts):
    """An end-to-end measurement of a version, with the profile of a run where there is one."""

    version_id: int
    device_id: int
    target: str
    kernels: tuple[KernelShare, ...] = ()
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTime(ModelTimeFacts):
    """`cost` is the median of the samples, `low` to `high` its 95 % interval."""

    id: int
    version_id: int
    device: str
    device_class: str
    target: str
    cost: float
    low: float
    high: float
    measured_at: datetime


class JobState(StrEnum):
    """The state of a profile that was asked for. DONE has a measurement, FAILED a message."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileJob:
    """A profile of a version that `asked_by` asked for, on a device of `key`.
    It gave the measurement `time_id`."""

    id: int
    version_id: int
    key: str
    asked_by: str
    state: JobState
    message: str
    time_id: int | None
    asked_at: datetime
    ended_at: datetime | None
