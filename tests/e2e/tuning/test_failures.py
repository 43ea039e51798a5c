"""A tuning run whose candidates crash, hang, eat memory and lie: each costs its own trial and nothing else."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass

from compiler.target.target import Target
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from rpc_server.box.server import Server
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.farm.rpc_kernels import kernel, with_features
from tuner.build.process_builder import BuildRequest, CandidateBuild, TraceSource
from tuner.devices.supplies import DirectFleet
from tuner.engine.engine import EngineRun
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, trace_source
from tuner.engine.run_recorder import RunRecorder
from tuner.records.model import RunState, TrialPurpose
from tuner.records.store import RecordStore
from tuner.search.base import Candidate
from tuner.space.sketch import Decision, Sketch
from tuner.task import TuningTask

KINDS = {
    "segfault": FailureKind.CRASH,
    "forever": FailureKind.RUN_TIMEOUT,
    "hungry": FailureKind.OUT_OF_MEMORY,
    "exit": FailureKind.CRASH,
    "negate": FailureKind.WRONG_RESULT,
    "lacking": FailureKind.UPLOAD,
    "add_one": None,
}
ORDER = ["add_one", "segfault", "forever", "hungry", "exit", "negate", "lacking", "add_one"]


@dataclass(frozen=True)
class Named:
    """Stands where a trace stands: the builder below turns its text into real machine code."""

    index: int = 0

    def with_decisions(self, decisions):
        return Named(decisions[0])

    def to_json(self):
        return f'["{self.index}:{ORDER[self.index]}"]'


SKETCH = Sketch("kernels", Named(), (Decision("kernel", tuple(range(len(ORDER)))),), lambda v: True, lambda v: 0.0)  # type: ignore[arg-type]


class InOrder:
    """A strategy that offers every kernel once, in order."""

    def __init__(self) -> None:
        self._left = [Candidate(SKETCH, (i,)) for i in range(len(ORDER))]

    def ask(self, count):
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def tell(self, candidate, cost):
        pass


class Kernels:
    """A builder of the named kernels; the untuned function is the honest one."""

    workers, cores = 2, 0

    def submit(self, request: BuildRequest) -> Future[CandidateBuild]:
        assert isinstance(request.source, TraceSource)
        trace = request.source.trace
        name = "add_one" if trace is None else trace.split(":")[1].rstrip('"]')
        artifact = with_features(kernel("add_one"), "no-such-feature") if name == "lacking" else kernel(name)
        done: Future[CandidateBuild] = Future()
        done.set_result(CandidateBuild(artifact.to_bytes(), None, "", 0.0))
        return done

    def close(self) -> None:
        pass


def add_one(target: Target) -> TuningTask:
    a = placeholder((1024,), name="a")
    return TuningTask("add_one", create_prim_func([a, compute((1024,), lambda i: a[i] + 1.0, name="b")]), target)


def test_each_failure_costs_its_own_trial(tmp_path, request):
    server = Server(port=0, memory_limit=512 << 20, silent=True)
    request.addfinalizer(server.terminate)
    fleet = DirectFleet([("127.0.0.1", server.port)])
    task = add_one(Target(fleet.target()))
    search = TaskSearch(task, InOrder(), lambda digest, trace: None, trace_source(task))
    with RecordStore.open(f"sqlite:///{tmp_path}/records.db", create=True) as store:
        options = RunOptions(trials=len(ORDER), run_timeout_s=12.0, sample_ms=1, finalists=0)
        recorder = RunRecorder.create(store, [task], options)
        snapshot = EngineRun([search], fleet, Kernels(), recorder, options).run()
        run = store.runs.get(recorder.run_id)
        trials = [t for t in store.trials.all(run.id) if t.purpose is TrialPurpose.SEARCH]

    assert run.state is RunState.FINISHED
    assert [t.failure for t in trials] == [KINDS[name] for name in ORDER]
    assert Counter(snapshot.tasks[0].failures) == Counter(f for f in map(KINDS.get, ORDER) if f)
    by_name = dict(zip(ORDER, trials))
    assert "SIGSEGV" in by_name["segfault"].failure_text
    assert "no-such-feature" in by_name["lacking"].failure_text
    assert "3" in by_name["exit"].failure_text
    assert all(t.failure_text for t in trials if t.failure)
    assert trials[-1].verified
    assert trials[-1].cost > 0
