"""A small farm in a record store: what contract tests of it write and look for."""

from __future__ import annotations

import dataclasses
import json

from rpc_server.wire.trial_messages import FailureKind
from tuner.records.model import NewDevice, NewRun, NewRunTask, NewTrial, NewWorkload, Run, TrialPurpose
from tuner.records.store import RecordStore

V3 = "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu"
V4 = "llvm -mcpu=x86-64-v4 -mtriple=x86_64-unknown-linux-gnu"
ZEN3 = "x86_64/znver3/2c"
SPR = "x86_64/sapphirerapids/2c"
TOOLCHAIN = {"tunefarm": "0.1.0", "llvm": "22.1.0"}
KEY = "a" * 64
OTHER_KEY = "b" * 64


@dataclasses.dataclass
class Farm:
    """A store with a workload, two targets and two devices."""

    store: RecordStore

    def __post_init__(self) -> None:
        self.workload = self.store.workloads.upsert(
            NewWorkload(key=KEY, name="matmul", spec={"op": "matmul"}, function="def f", flops=2.0e9)
        )
        self.v3 = self.store.targets.upsert(V3)
        self.v4 = self.store.targets.upsert(V4)
        self.zen3 = self.device("zen", ZEN3)
        self.spr = self.device("spr", SPR)

    def device(self, name: str, device_class: str) -> int:
        return self.store.devices.upsert(
            NewDevice(name=name, key="cpu", device_class=device_class, fingerprint={"cpu": device_class})
        ).id

    def run(self, target_id: int | None = None, budget: int = 64, **options: object) -> Run:
        task = NewRunTask(workload_id=self.workload.id, target_id=target_id or self.v3.id, budget=budget)
        return self.store.runs.start(NewRun(tasks=(task,), toolchain=TOOLCHAIN, **options))  # type: ignore[arg-type]

    def trial(self, run: Run, digest: str, *samples: float, device: int | None = None, verified: bool = True) -> int:
        return self.store.trials.add(measured(run, digest, *samples, device=device or self.zen3, verified=verified))

    def baseline(self, run: Run, seconds: float, device: int | None = None) -> int:
        """The function as written."""
        return self.store.trials.add(
            NewTrial(
                task_id=run.tasks[0].id,
                device_id=device or self.zen3,
                purpose=TrialPurpose.BASELINE,
                samples=(seconds,),
                verified=True,
            )
        )

    def best_digest(self, target: str = V3, device_class: str = ZEN3) -> str:
        found = self.store.best.look_up(KEY, target, device_class)
        assert found.config is not None
        return found.config.digest


def measured(run: Run, digest: str, *samples: float, device: int, verified: bool = True, **more: object) -> NewTrial:
    return NewTrial(  # type: ignore[arg-type]
        task_id=run.tasks[0].id,
        digest=digest,
        trace=json.dumps({"steps": digest}),
        device_id=device,
        samples=samples,
        verified=verified,
        **more,
    )


def failed(run: Run, digest: str, kind: FailureKind, message: str, device: int | None = None) -> NewTrial:
    return NewTrial(
        task_id=run.tasks[0].id,
        digest=digest,
        trace=json.dumps({"steps": digest}),
        device_id=device,
        failure=kind,
        failure_text=message,
    )
