"""The models of a run beside their untuned builds: what of them was slower is given back in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compiler.target.target import Target
from tunefarm.cli.models.configs import stored_configs
from tunefarm.model_schedules import schedules_of
from tuner.devices.fleet import Fleet
from tuner.engine.options import RunOptions
from tuner.faces.kernel_schedules import draft_of
from tuner.goals import Goal
from tuner.kernels.files import Item
from tuner.kernels.model import model_kernels
from tuner.kernels.model_guard import GuardedModel, guarded
from tuner.kernels.model_version import ModelSource, plan_of
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import Run, RunState
from tuner.records.store import RecordStore


def guard_models(
    store: RecordStore,
    run: Run,
    models: Sequence[ModelSource],
    items: Sequence[Item],
    options: RunOptions,
    fleet: Fleet,
) -> dict[str, GuardedModel]:
    """Compare the models that the run tuned whole with their untuned builds, on a device of `fleet`.

    Returns the comparisons by the models' names. A run that did not finish, or that made energy small, has none.
    """
    if run.state is not RunState.FINISHED or options.objective != Goal.TIME:
        return {}
    names = {str(item.record.get("name", "")) for item in items}
    whole = [model for model in models if {kernel.name for kernel in plan_of(model).kernels} <= names]
    device_class = next((trial.device_class for trial in store.trials.all(run.id) if trial.device_class), "")
    found = {model.name: _guard(store, model, options.target, device_class, fleet) for model in whole}
    return {name: guard for name, guard in found.items() if guard is not None}


def _guard(
    store: RecordStore, model: ModelSource, target: str, device_class: str, fleet: Fleet
) -> GuardedModel | None:  # fmt: skip
    chosen = Target(target)
    module = model.read().module
    known = stored_configs(store, model_kernels(module, chosen), target, device_class)
    found = guarded(module, chosen, None, schedules_of(known).find, fleet)
    for kernel in found.given_back if found else ():
        draft = draft_of(kernel.func, chosen)
        keep: Collection[str] = () if draft is None else (candidate_digest(draft.to_json()),)
        store.best.give_back(kernel.key, target, device_class, keep)
    return found
