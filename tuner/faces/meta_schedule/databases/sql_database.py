"""A database on the record store, which meta_schedule shares with `tunefarm tune`."""

from __future__ import annotations

import socket
from itertools import islice

from compiler.errors import TunefarmError
from compiler.ir.module import IRModule
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from rpc_server.machine.fingerprint import Fingerprint, local_fingerprint
from rpc_server.machine.user_name import user_name
from tuner.errors import TuningError
from tuner.faces.meta_schedule.databases.database import Database, Equality, counted
from tuner.faces.meta_schedule.record import ArgInfo, TuningRecord, Workload, entry
from tuner.records.lookup.keys import candidate_digest
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, RunState, Trial
from tuner.records.store import RecordStore
from tuner.task import count_flops
from tuner.toolchain import toolchain


class SQLDatabase(Database):
    """Records in the store at `address`, made if there is none.

    It is a path, `sqlite:///…` or `postgresql://…`. `get_top_k` gives verified records of any run of a workload. A
    record committed here is of this machine's device class unless `fingerprint` names the measuring machine, and
    belongs to a run of its own. It counts as verified only with `verified`, which says that its output was compared
    with the unscheduled function's.
    """

    def __init__(
        self, address: str, module_equality: Equality = "structural", *, fingerprint: Fingerprint | None = None,
        verified: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(module_equality)
        self._store = RecordStore.open(address, create=True)
        self._fingerprint = fingerprint
        self._verified = verified
        self._tasks: dict[tuple[str, str], int] = {}
        self._runs: list[int] = []
        self._device: int | None = None

    def close(self) -> None:
        """End what was committed, and the connection."""
        for run in self._runs:
            self._store.runs.set_state(run, RunState.FINISHED)
        self._runs = []
        self._store.close()

    def has_workload(self, mod: IRModule) -> bool:
        return self._store.workloads.find(Workload(mod).key) is not None

    def commit_workload(self, mod: IRModule) -> Workload:
        workload, func = Workload(mod), entry(mod)
        name = str(func.attrs.get("global_symbol", "main"))
        self._store.workloads.upsert(
            NewWorkload(key=workload.key, name=name, function=func.script(), flops=count_flops(func) or None)
        )
        return workload

    def commit_tuning_record(self, record: TuningRecord) -> None:
        if not record.run_secs:
            raise TuningError("a record without a time can't go into the store", hint="measure it first")
        if record.target is None:
            raise TuningError("a record without a target can't go into the store")
        trace = record.trace.to_json()
        self._store.trials.add(
            NewTrial(
                task_id=self._task(record),
                device_id=self._device_id(),
                digest=candidate_digest(trace),
                trace=trace,
                samples=record.run_secs,
                verified=self._verified,
            )
        )

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        most = min(counted(top_k), 1000)
        found = self._store.trials.fastest(workload.key, 1000) if most else ()
        records = (_to_record(trial, workload) for trial in found)
        return list(islice((record for record in records if record.trace.steps), most))

    def get_all_tuning_records(self) -> list[TuningRecord]:
        known: dict[str, Workload] = {}
        found = []
        for run in reversed(self._store.runs.newest(limit=1000)):
            for trial in self._store.trials.all(run.id):
                if trial.trace is None or trial.cost is None:
                    continue
                if trial.workload_key not in known:
                    known[trial.workload_key] = self._workload(trial.workload_key)
                found.append(_to_record(trial, known[trial.workload_key]))
        return found

    def give_back(self, mod: IRModule, target: Target, keep: Trace | None = None) -> bool:
        kept = () if keep is None else (candidate_digest(keep.to_json()),)
        self._store.best.give_back(Workload(mod).key, str(target), self._own_fingerprint().device_class, kept)
        return True

    def reject(self, record: TuningRecord) -> bool:
        if record.target is None:  # the store has none such
            return True
        digest = candidate_digest(record.trace.to_json())
        device_class = self._own_fingerprint().device_class
        self._store.best.reject(record.workload.key, str(record.target), device_class, digest)
        return True

    def __len__(self) -> int:
        return sum(run.trials - run.failed for run in self._store.runs.newest(limit=1000))

    def _workload(self, key: str) -> Workload:
        stored = self._store.workloads.find(key)
        if stored is None or not stored.function:
            raise TuningError(f"workload {key[:16]}… has no text in the store")
        return Workload.from_json([key, stored.function])

    def _task(self, record: TuningRecord) -> int:
        """The run's task for the record's workload and target; each gets a run of its own."""
        where = record.workload.key, str(record.target)
        if where not in self._tasks:
            stored = self._store.workloads.find(record.workload.key)
            if stored is None:
                raise TuningError("the record's workload was not committed", hint="call commit_workload first")
            target = self._store.targets.upsert(str(record.target))
            run = self._store.runs.start(
                NewRun(
                    tasks=(NewRunTask(workload_id=stored.id, target_id=target.id, budget=0),),
                    toolchain=toolchain(),
                    name=f"meta_schedule: {stored.name}",
                    host=socket.gethostname(),
                    user=user_name(),
                )
            )
            self._runs.append(run.id)
            self._tasks[where] = run.tasks[0].id
        return self._tasks[where]

    def _own_fingerprint(self) -> Fingerprint:
        return self._fingerprint or local_fingerprint()

    def _device_id(self) -> int:
        if self._device is None:
            fingerprint = self._own_fingerprint()
            self._device = self._store.devices.upsert(
                NewDevice(
                    name=f"{socket.gethostname()}/meta_schedule",
                    key="cpu",
                    device_class=fingerprint.device_class,
                    fingerprint=fingerprint.to_builtins(),
                    features=tuple(fingerprint.features),
                )
            ).id
        return self._device


def _to_record(trial: Trial, workload: Workload) -> TuningRecord:
    try:
        args = tuple(ArgInfo.from_entry_func(workload.mod))
    except TunefarmError:
        args = None
    return TuningRecord(Trace.from_json(trial.trace or ""), workload, trial.samples, Target(trial.target), args)


Database.KINDS["sql"] = SQLDatabase
