"""Models: registered, their kernels and coverage, all of their configs at once, their times and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from compiler.errors import TunefarmError
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tracker.capability import parse_capability
from tuner.devices.supplies import local_target
from tuner.engine.store_rows import workload_row
from tuner.goals import Goal
from tuner.kernels.coverage import coverage_of
from tuner.kernels.stored import check_profilable, queue_model
from tuner.records.errors import InvalidRecord
from tuner.records.model import BestLookup, NewDevice
from tuner.records.model_store import facts
from tuner.records.model_store.facts import Viewer
from tuner.records.model_store.writing import MOST_PART
from tuner.records.paging import split_page
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from webui.access import Tuner
from webui.api.best_models import Answer
from webui.api.model_replies import (
    CoverageReply,
    GraphCall,
    GraphReply,
    KernelShare,
    Model,
    ModelConfigs,
    ModelPage,
    ModelTask,
    ModelTime,
    ModelTimePage,
    ModelVersion,
    ModelVersionDetail,
    ModelVersionPage,
    NewModel,
    NewModelTime,
    ProfileJob,
    ProfileJobs,
    ProfileModel,
    ProfileReply,
    Readers,
    TuneModel,
)
from webui.api.params import Before, Id, Objective
from webui.api.replies import CHANGE_ERRORS, ERRORS, conditional
from webui.api.run_changes import launcher_of
from webui.api.run_models import Run
from webui.context import Context, Ctx
from webui.errors import BadRequest, NoLauncher
from webui.scopes import check_model, scopes_of

router = APIRouter(tags=["models"], responses=ERRORS)

Digest = Annotated[str, Path(min_length=4, max_length=64, pattern="^[0-9a-f]+$")]
Target_ = Annotated[str, Query(description="target string", min_length=1, max_length=4000)]
DeviceClass = Annotated[str, Query(description="device class", min_length=1, max_length=400)]
Version = Annotated[
    str, Query(description="the first digits of a version's digest; the newest without it", max_length=64)
]
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "you have it already"}}
_BYTES: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


def viewer_of(request: Request) -> Viewer:
    """Who asks, as models know owners and readers."""
    return Viewer(name=request.scope["tunefarm_name"], only=scopes_of(request).models)


def _version(context: Context, request: Request, model_id: int, digest: str) -> facts.ModelVersion:
    context.store.models.get(model_id, viewer_of(request))
    return context.store.models.version_of(model_id, digest)


# ------------------------------------------------------------------------------- what there is


@router.get("/models")
def models(
    context: Ctx, request: Request, before: Before = None, limit: Annotated[int, Query(ge=1, le=500)] = 50
) -> ModelPage:
    """The models that you may see, newest first."""
    page, following = split_page(context.store.models.page(limit + 1, before, viewer_of(request)), limit)
    return ModelPage(models=[Model.of(model) for model in page], next=following)


@router.get("/models/{model_id}")
def model(context: Ctx, request: Request, model_id: Id) -> Model:
    """One model."""
    return Model.of(context.store.models.get(model_id, viewer_of(request)))


@router.get("/models/{model_id}/versions")
def model_versions(
    context: Ctx, request: Request, model_id: Id, before: Before = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> ModelVersionPage:  # fmt: skip
    """A model's versions, newest first."""
    context.store.models.get(model_id, viewer_of(request))
    page, following = split_page(context.store.models.versions(model_id, limit + 1, before), limit)
    return ModelVersionPage(versions=[ModelVersion.of(version) for version in page], next=following)


@router.get("/models/{model_id}/versions/{digest}")
def model_version(context: Ctx, request: Request, model_id: Id, digest: Digest) -> ModelVersionDetail:
    """One version, by its digest or the first digits of it, with its kernels."""
    found = _version(context, request, model_id, digest)
    tasks = [ModelTask.of(task) for task in context.store.models.tasks(found.id)]
    return ModelVersionDetail.of(found, tasks=tasks, runs=list(context.store.models.runs(found.id)))


@router.get("/models/{model_id}/versions/{digest}/graph", response_model=GraphReply, responses=_UNCHANGED)
def model_graph(context: Ctx, request: Request, model_id: Id, digest: Digest) -> Response:
    """The calls of a version's graph."""
    found = _version(context, request, model_id, digest)
    calls = [GraphCall.of(call) for call in context.store.models.graph(found.id)]
    return conditional(request, GraphReply(calls=calls))


@router.get("/models/{model_id}/coverage")
def model_coverage(
    context: Ctx, request: Request, model_id: Id, target: Target_, device_class: DeviceClass, version: Version = ""
) -> CoverageReply:
    """How well a model is tuned on a device class, and what tuning should still save."""
    found = _version(context, request, model_id, version)
    kind = Target(target).kind.name
    return CoverageReply.of(coverage_of(context.store, found, target, device_class, kind))


@router.get("/models/{model_id}/configs", response_model=ModelConfigs, responses=_UNCHANGED)
def model_configs(
    context: Ctx, request: Request, model_id: Id, target: Target_,
    device_class: Annotated[str | None, Query(description="device class", max_length=400)] = None,
    version: Version = "",
    release: Annotated[str | None, Query(description="only this release's configs", max_length=100)] = None,
    objective: Objective = Goal.TIME,
) -> Response:  # fmt: skip
    """The configs of all kernels of a model on one target, with an ETag: what a build asks once."""
    found = _version(context, request, model_id, version)
    keys = [task.workload_key for task in context.store.models.tasks(found.id, Target(target).kind.name)]
    place = target, device_class or None
    if release and objective is not Goal.TIME:
        raise BadRequest("the configs of a release are chosen already", hint="leave the release or the objective out")
    if release:
        answers = [Answer.of(key, context.store.releases.look_up(release, key, *place)) for key in keys]
    else:
        known = _best(context.store, keys, *place, objective)
        answers = [Answer.of(key, known[key]) for key in keys]
    misses = sum(answer.match == "miss" for answer in answers)
    return conditional(request, ModelConfigs(version=found.digest, answers=answers, misses=misses))


def _best(
    store: RecordStore, keys: list[str], target: str, device_class: str | None, goal: Goal
) -> dict[str, BestLookup]:
    found: dict[str, BestLookup] = {}
    for start in range(0, len(keys), 1000):
        found |= store.best.look_up_all(keys[start : start + 1000], target, device_class, goal=goal)
    return found


@router.get("/models/{model_id}/times")
def model_times(
    context: Ctx, request: Request, model_id: Id,
    device_class: Annotated[str | None, Query(description="only on this device class", max_length=400)] = None,
    version: Version = "", before: Before = None, limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ModelTimePage:  # fmt: skip
    """A model's end-to-end times, newest first."""
    context.store.models.get(model_id, viewer_of(request))
    chosen = context.store.models.version_of(model_id, version).id if version else None
    page, following = split_page(context.store.models.times(model_id, device_class, chosen, limit + 1, before), limit)
    return ModelTimePage(times=times_of(context.store, page), next=following)


def times_of(store: RecordStore, found: Sequence[facts.ModelTime]) -> list[ModelTime]:
    digests = {number: store.models.version(number).digest for number in {time.version_id for time in found}}
    return [ModelTime.at(time, digests[time.version_id]) for time in found]


@router.get("/models/{model_id}/times/{time_id}/profile")
def model_profile(context: Ctx, request: Request, model_id: Id, time_id: Id) -> ProfileReply:
    """Where the time of a measured run went; empty if the run was not profiled."""
    context.store.models.get(model_id, viewer_of(request))
    found = context.store.models.time(model_id, time_id)
    return ProfileReply(kernels=[KernelShare.of(kernel) for kernel in context.store.models.profile(found.id)])


# ------------------------------------------------------------------------------------- changes


@router.post("/models", responses=CHANGE_ERRORS, status_code=201)
def register_model(context: Ctx, by: Tuner, request: Request, new: NewModel) -> Model:
    """Register a version of a model of yours, by its digest. Its file may be sent afterwards."""
    check_model(scopes_of(request), new.name)
    target = Target(new.kind)
    rows = [workload_row(TuningTask(task.names[0], _function(task.function), target)) for task in new.tasks]
    if any(call.task is not None and call.task >= len(rows) for call in new.graph):
        raise BadRequest("a call of the graph names a kernel that is not among the tasks")
    made = context.store.models.register(
        facts.NewModelVersion(
            name=new.name,
            digest=new.digest,
            file_digest=new.file_digest,
            form=new.form,
            kind=new.kind,
            sizes=new.sizes,
            file_bytes=new.file_bytes,
            owner=by,
            readers=tuple(new.readers),
            created_by=by,
            tasks=tuple(
                facts.NewModelTask(workload=row, names=tuple(task.names), calls=task.calls)
                for row, task in zip(rows, new.tasks, strict=True)
            ),
            graph=tuple(
                facts.GraphCall(
                    name=call.name,
                    workload=None if call.task is None else rows[call.task].key,
                    inputs=tuple(call.inputs),
                )
                for call in new.graph
            ),
        )
    )
    return Model.of(context.store.models.get(made.model_id, viewer_of(request)))


def _function(script: str) -> PrimFunc:
    try:
        func = from_source(script)
    except TunefarmError as error:
        raise InvalidRecord(f"the script of a kernel cannot be read: {error.message}") from None
    if not isinstance(func, PrimFunc):
        raise InvalidRecord("the script of a kernel must hold one function")
    return func


@router.post("/models/{model_id}/readers", responses=CHANGE_ERRORS)
def model_readers(context: Ctx, _: Tuner, request: Request, model_id: Id, new: Readers) -> Model:
    """Say who may see a model of yours."""
    return Model.of(context.store.models.set_readers(model_id, new.readers, viewer_of(request)))


@router.post("/models/{model_id}/remove", responses=CHANGE_ERRORS)
def remove_model(context: Ctx, _: Tuner, request: Request, model_id: Id) -> Model:
    """Delete a model of yours with its versions, files, times and profiles. What was tuned for it stays."""
    found = context.store.models.get(model_id, viewer_of(request))
    context.store.models.remove(model_id, viewer_of(request))
    return Model.of(found)


@router.post("/models/{model_id}/times", responses=CHANGE_ERRORS, status_code=201)
def add_model_time(context: Ctx, by: Tuner, request: Request, model_id: Id, new: NewModelTime) -> ModelTime:
    """Keep an end-to-end time of a model, with the profile of a run."""
    context.store.models.get(model_id, viewer_of(request))
    version = context.store.models.version_of(model_id, new.version)
    known = context.store.devices.named(new.device)
    same = next((device for device in reversed(known) if device.device_class == new.device_class), None)
    device = same or context.store.devices.upsert(
        NewDevice(name=new.device, key="", device_class=new.device_class, fingerprint={"told": new.device_class})
    )
    made = context.store.models.add_time(
        facts.NewModelTime(
            version_id=version.id,
            device_id=device.id,
            target=new.target,
            samples=tuple(new.samples_s),
            release=new.release,
            tuned_share=new.tuned_share,
            environment=new.environment,
            measured_by=by,
            measured_at=new.measured_at,
            kernels=tuple(
                facts.KernelShare(
                    name=kernel.name, calls=kernel.calls, seconds=kernel.seconds_s, workload=kernel.workload,
                    config=kernel.config, roofline=kernel.roofline,
                )
                for kernel in new.kernels
            ),
        )
    )  # fmt: skip
    [kept] = context.store.models.times(model_id, limit=1, before=made + 1)
    return ModelTime.at(kept, version.digest)


@router.post("/models/{model_id}/tune", responses=CHANGE_ERRORS, status_code=202)
def tune_model(context: Ctx, by: Tuner, request: Request, model_id: Id, how: TuneModel) -> Run:
    """Begin a run of a model's kernels. It is `queued` until its process has a device; follow its events."""
    version = _version(context, request, model_id, how.version)
    launcher = launcher_of(context)
    if launcher.has_tracker:
        target = how.target or context.fleet.target_of(parse_capability(how.key or "*"))
    elif how.key:
        raise NoLauncher("this web app has no tracker to lease devices from", hint="leave the key out")
    else:
        target = how.target or local_target()
    made = queue_model(context.store, version, target, trials=how.trials, key=how.key, user=by)
    launcher.start(made.id, how.key)
    return Run.of(made)


@router.post("/models/{model_id}/profile", responses=CHANGE_ERRORS, status_code=202)
def profile_model(context: Ctx, by: Tuner, request: Request, model_id: Id, how: ProfileModel) -> ProfileJob:
    """Build a model with its best configs, run it on a device, and keep its time and profile.
    The store must hold the model's file, in ONNX: files of other kinds may run code."""
    version = _version(context, request, model_id, how.version)
    launcher = launcher_of(context)
    if launcher.has_tracker:
        context.fleet.target_of(parse_capability(how.key or "*"))  # says so where no device has the key
    elif how.key:
        raise NoLauncher("this web app has no tracker to lease devices from", hint="leave the key out")
    check_profilable(version)
    job = context.store.models.add_job(version.id, how.key, by)
    launcher.profile(job, model_id, version.digest)
    return ProfileJob.of(job)


@router.get("/models/{model_id}/profiles")
def profile_jobs(context: Ctx, request: Request, model_id: Id, version: Version = "") -> ProfileJobs:
    """The newest profiles of a version that were asked for, and how they ended."""
    found = _version(context, request, model_id, version)
    return ProfileJobs(jobs=[ProfileJob.of(job) for job in context.store.models.jobs(found.id)])


# --------------------------------------------------------------------------------------- files


@router.post("/models/{model_id}/versions/{digest}/file", responses=CHANGE_ERRORS)
async def add_model_file(
    context: Ctx, _: Tuner, request: Request, model_id: Id, digest: Digest,
    start: Annotated[int, Query(ge=0, le=4 << 30, description="of the file's bytes, the first that is sent")] = 0,
) -> ModelVersion:  # fmt: skip
    """Send a piece of the file of a model of yours, at most 8 MiB. The last one has the whole checked."""
    body = await request.body()
    if not 0 < len(body) <= MOST_PART:
        raise BadRequest(f"a piece has 1 to {MOST_PART} bytes, not {len(body)}")

    def keep() -> facts.ModelVersion:
        found = _version(context, request, model_id, digest)
        return context.store.models.add_part(found.id, start, body, viewer_of(request))

    return ModelVersion.of(await run_in_threadpool(keep))


@router.get("/models/{model_id}/versions/{digest}/file", responses=_BYTES, response_class=StreamingResponse)
def model_file(context: Ctx, request: Request, model_id: Id, digest: Digest) -> StreamingResponse:
    """A version's file, for its owner and readers."""
    found = _version(context, request, model_id, digest)
    pieces = context.store.models.file(found.id, viewer_of(request))
    first = next(pieces)  # so that what is wrong is answered, not found in a broken file

    def body() -> Any:
        yield first
        yield from pieces

    headers = {"Content-Length": str(found.file_bytes), "Cache-Control": "no-store"}
    return StreamingResponse(body(), media_type="application/octet-stream", headers=headers)
