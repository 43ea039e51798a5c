"""Routes for quotas, and for boxes that get another name or leave."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field

from tuner.records.errors import RecordNotFound
from tuner.records.farm.model_farm import Role
from tuner.records.farm.quotas import Quota as QuotaFacts
from webui.access import Admin
from webui.api.farm_models import Body
from webui.api.replies import CHANGE_ERRORS, ERRORS
from webui.api.shown import ApiObject, Shown, shows
from webui.context import Context, Ctx
from webui.errors import Forbidden

router = APIRouter(tags=["farm"], responses=ERRORS)

User = Annotated[str, Path(min_length=1, max_length=100, description='a user or token by name; "*" is everyone else')]
Box = Annotated[str, Path(min_length=1, max_length=200)]


class NewQuota(Body):
    """A quota; null is no limit. `days` is the time that device hours and trials are counted over."""

    device_hours: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)
    trials: int | None = Field(default=None, ge=0, le=10**12)
    runs: int | None = Field(default=None, ge=0, le=10**6)
    days: int = Field(default=30, ge=1, le=3660)


@shows(QuotaFacts)
class Quota(Shown):
    """A user's quota, and how much of it is used."""

    taken_device_hours: float
    taken_trials: int
    taken_runs: int


class QuotasReply(ApiObject):
    """All quotas, by user."""

    quotas: list[Quota]


class Renamed(Body):
    """The box's new name."""

    name: str = Field(min_length=1, max_length=200)


class Removed(Body):
    """Why the box left."""

    reason: str = Field(default="", max_length=4000)


class BoxReply(ApiObject):
    """The box's devices, as they are called now."""

    devices: list[str]


def _quota(context: Context, quota: QuotaFacts, user: str) -> Quota:
    taken = context.store.quotas.taken(user, quota.days)
    return Quota.of(quota, taken_device_hours=taken.device_hours, taken_trials=taken.trials, taken_runs=taken.runs)


@router.get("/quotas", responses=CHANGE_ERRORS)
def quotas(context: Ctx, _: Admin) -> QuotasReply:
    """All quotas, and how much of each is used."""
    return QuotasReply(quotas=[_quota(context, quota, quota.user) for quota in context.store.quotas.all()])


@router.get("/quotas/{user}", responses=CHANGE_ERRORS)
def quota(request: Request, context: Ctx, user: User) -> Quota:
    """The quota that holds for a user, and how much of it is used. Only admins see those of other users."""
    if user != request.scope["tunefarm_name"] and not request.scope["tunefarm_role"].allows(Role.ADMIN):
        raise Forbidden("you may see only your own quota", hint="an admin's token sees all of them")
    found = context.store.quotas.of(user)
    if found is None:
        raise RecordNotFound(f"{user} has no quota")
    return _quota(context, found, user)


@router.post("/quotas/{user}", responses=CHANGE_ERRORS)
def set_quota(context: Ctx, by: Admin, user: User, new: NewQuota) -> Quota:
    """Set a user's quota, in place of the one before."""
    facts = QuotaFacts(user=user, device_hours=new.device_hours, trials=new.trials, runs=new.runs, days=new.days)
    return _quota(context, context.store.quotas.put(facts, by=by), user)


@router.post("/quotas/{user}/remove", responses=CHANGE_ERRORS)
def remove_quota(context: Ctx, by: Admin, user: User) -> QuotasReply:
    """Remove a user's quota."""
    context.store.quotas.remove(user)
    return quotas(context, by)


@router.post("/boxes/{box}/rename", responses=CHANGE_ERRORS)
def rename_box(context: Ctx, by: Admin, box: Box, new: Renamed) -> BoxReply:
    """Give a box's devices another name on record.
    Its key is renamed where the tracker is: `tunefarm farm rename`."""
    return BoxReply(devices=list(context.store.devices.rename_box(box, new.name, by=by)))


@router.post("/boxes/{box}/remove", responses=CHANGE_ERRORS)
def remove_box(context: Ctx, by: Admin, box: Box, why: Removed) -> BoxReply:
    """Write down that a box has left the farm. What it measured stays."""
    return BoxReply(devices=list(context.store.devices.remove_box(box, why.reason, by=by)))
