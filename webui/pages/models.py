"""Models: their list, one with its times, kernels and graph, and two of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from compiler.target.target import Target
from tuner.devices.supplies import tracked_target
from tuner.engine.progress import ModelProgress
from tuner.kernels.coverage import KernelCoverage, ModelCoverage, coverage_of
from tuner.kernels.model_version import KIND
from tuner.records.model import Run, Trial
from tuner.records.model_store.facts import KernelShare, Model, ModelTask, ModelTime, ModelVersion
from tuner.records.paging import split_page
from tuner.records.store import RecordStore
from webui.api.model_routes import viewer_of
from webui.api.params import Before, Id
from webui.api.runs import current_models, current_progress
from webui.context import Context, Ctx
from webui.errors import BadRequest
from webui.format import duration
from webui.pages.figures import time_series
from webui.pages.graph_picture import HEATS, CallShare, graph_picture
from webui.pages.render import render
from webui.progress import Progress

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_PAGE = 50
_POINTS = 120
_VERSIONS = 30
_JOBS = 5


@dataclass(frozen=True)
class ModelLine:
    """A model in the list, with its last time and the one before it on the same device class."""

    model: Model
    last: ModelTime | None
    before: ModelTime | None


@dataclass(frozen=True)
class TuningNow:
    """A run that tunes a model now, and how the model stands in it."""

    run: Run
    progress: Progress
    models: tuple[ModelProgress, ...]


@router.get("/models")
def models(context: Ctx, request: Request, before: Before = None) -> Response:
    found, following = split_page(context.store.models.page(_PAGE + 1, before, viewer_of(request)), _PAGE)
    times = context.store.models.last_times([model.id for model in found])
    page = [_line(model, times.get(model.id, ())) for model in found]
    return render(context, "models.html", "Models", models=page, next=following, older_than=before)


def _line(model: Model, times: Sequence[ModelTime]) -> ModelLine:
    return ModelLine(model, times[0] if times else None, times[1] if len(times) > 1 else None)


# ------------------------------------------------------------------------------------- one


@router.get("/models/{model_id}")
def model(context: Ctx, request: Request, model_id: Id, device_class: str = "", version: str = "") -> Response:
    store = context.store
    found = store.models.get(model_id, viewer_of(request))
    chosen = store.models.version_of(model_id, version)
    classes = store.models.device_classes(model_id)
    fleet = context.fleet.view().devices
    newest = store.models.times(model_id, limit=1)
    tasks = store.models.tasks(chosen.id, KIND)
    tuned = None if device_class or newest else _tuned_on(store, tasks)
    place = device_class or (newest[0].device_class if newest else (tuned and tuned.device_class) or "")
    times = store.models.times(model_id, place, limit=_POINTS) if place else ()
    targets = {d.device_class: tracked_target(d.info) for d in fleet if d.info is not None}
    target = times[0].target if times else tuned.target if tuned else targets.get(place, "")
    coverage = coverage_of(store, chosen, target, place, Target(target).kind.name) if target else None
    versions = store.models.versions(model_id, _VERSIONS)
    calls = store.models.graph(chosen.id)
    _, profile = store.models.newest_profile(chosen.id, place) if place else (0, ())
    names = {each.id: each.digest[:8] for each in versions}
    runs = [store.runs.get(number) for number in store.models.runs(chosen.id, 5)]
    return render(
        context, "model.html", "Models", model=found, chosen=chosen, versions=versions, place=place,
        classes=sorted({*classes, *(d.device_class for d in fleet if d.device_class), *([place] if place else [])}),
        measured=classes, times=times, names=names, coverage=coverage, kernels=_kernels(coverage), tasks=tasks,
        picture=time_series(times[::-1], names) if len(times) > 1 else None,
        graph=graph_picture(calls, _shares(coverage, profile)) if calls else None, heats=range(1, HEATS + 1), runs=runs,
        under_way=[_under_way(store, run, found.name) for run in runs if not run.state.ended],
        launcher=context.launcher, jobs=store.models.jobs(chosen.id, _JOBS),
        keys=sorted({device.key for device in fleet if device.key}), others=_others(chosen, versions, place, classes),
    )  # fmt: skip


@router.get("/models/{model_id}/times/{time_id}")
def model_time(context: Ctx, request: Request, model_id: Id, time_id: Id) -> Response:
    """One measurement of a model, and where its time went."""
    found = context.store.models.get(model_id, viewer_of(request))
    time = context.store.models.time(model_id, time_id)
    return render(
        context,
        "model_time.html",
        "Models",
        model=found,
        time=time,
        chosen=context.store.models.version(time.version_id, viewer_of(request)),
        kernels=context.store.models.profile(time_id),
    )


def _tuned_on(store: RecordStore, tasks: Sequence[ModelTask]) -> Trial | None:
    """The fastest trial of the first tuned kernel.
    A model that was not timed yet is shown on the device where it was tuned."""
    found = (store.trials.fastest(task.workload_key, 1) for task in tasks)
    return next((trials[0] for trials in found if trials), None)


def _under_way(store: RecordStore, run: Run, name: str) -> TuningNow:
    now = current_progress(store, run)
    return TuningNow(run, now, tuple(model for model in current_models(store, run, now) if model.name == name))


def _kernels(coverage: ModelCoverage | None) -> list[KernelCoverage]:
    if coverage is None:
        return []
    return sorted(coverage.kernels, key=lambda kernel: -(kernel.seconds or 0.0))


def _shares(coverage: ModelCoverage | None, profile: Sequence[KernelShare]) -> Mapping[str, CallShare]:
    """The share of each kernel by its names: of the profile, else of what configs say."""
    whole = sum(share.seconds for share in profile)
    if whole:
        return {
            share.name: CallShare(
                share.seconds / whole,
                f"{share.name}: {100 * share.seconds / whole:.1f} % of the time, {duration(share.seconds)} "
                f"in {share.calls} calls{', ' + share.config if share.config else ''}",
            )
            for share in profile
        }
    known = coverage.kernels if coverage is not None else ()
    whole = sum(kernel.seconds or 0.0 for kernel in known)
    return {
        name: CallShare(kernel.seconds / whole, f"{name}: {100 * kernel.seconds / whole:.1f} % of the kernels' time")
        for kernel in known
        if kernel.seconds and whole
        for name in kernel.task.names
    }


def _others(
    version: ModelVersion, versions: Sequence[ModelVersion], place: str, classes: Sequence[str]
) -> list[tuple[str, str]]:
    """Return what to compare with: a label, and the query of it."""
    here = f"a={version.digest[:12]}&class_a={place}"
    found = [
        (f"version {each.digest[:8]}", f"{here}&b={each.digest[:12]}&class_b={place}")
        for each in versions
        if each.id != version.id
    ]
    return found + [
        (f"this version on {name}", f"{here}&b={version.digest[:12]}&class_b={name}")
        for name in classes
        if name != place
    ]


# ------------------------------------------------------------------------------------- two


@dataclass(frozen=True)
class ModelSide:
    """A version on a device class: its newest time there, and the kernels of its newest profiled run."""

    version: ModelVersion
    device_class: str
    time: ModelTime | None
    kernels: Mapping[str, KernelShare]


@dataclass(frozen=True)
class KernelPair:
    """A kernel on both sides.
    `known`: both sides were profiled, so a kernel that one lacks takes no time there."""

    name: str
    a: KernelShare | None
    b: KernelShare | None
    known: bool

    @property
    def change(self) -> float | None:
        """How many more seconds of a run the second side takes; None if one side was not profiled."""
        return self._more if self.known else None

    @property
    def weight(self) -> float:
        """Kernels are listed by this, the largest first."""
        return abs(self._more)

    @property
    def _more(self) -> float:
        return (self.b.seconds if self.b else 0.0) - (self.a.seconds if self.a else 0.0)


@router.get("/models/{model_id}/compare")
def compare_models(
    context: Ctx, request: Request, model_id: Id, a: str = "", b: str = "", class_a: str = "", class_b: str = ""
) -> Response:
    found = context.store.models.get(model_id, viewer_of(request))
    if (a, class_a) == (b, class_b):
        raise BadRequest("both sides are the same version on the same device class", hint="choose another for one side")
    left, right = _side(context, model_id, a, class_a), _side(context, model_id, b, class_b)
    names = dict.fromkeys([*left.kernels, *right.kernels])
    unprofiled = next((side for side in (left, right) if not side.kernels), None)
    pairs = [KernelPair(name, left.kernels.get(name), right.kernels.get(name), unprofiled is None) for name in names]
    pairs.sort(key=lambda pair: -pair.weight)
    return render(
        context, "model_compare.html", "Models", model=found, left=left, right=right, pairs=pairs, unprofiled=unprofiled
    )


def _side(context: Context, model_id: int, digest: str, device_class: str) -> ModelSide:
    """A version's newest time on a device class; on that of its newest time where none is named."""
    version = context.store.models.version_of(model_id, digest)
    times = context.store.models.times(model_id, device_class or None, version.id, 1)
    device_class = device_class or (times[0].device_class if times else "")
    _, kernels = context.store.models.newest_profile(version.id, device_class)
    return ModelSide(version, device_class, times[0] if times else None, {share.name: share for share in kernels})
