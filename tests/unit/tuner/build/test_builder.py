"""Builds in worker processes: every way to go wrong costs one build and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest

from compiler.artifact import Artifact
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import Schedule
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.cli.farm import until
from tests.kit.tuner import build_makers
from tuner.build.choose import check_builders, make_builder
from tuner.build.process_builder import (
    BuildRequest,
    CandidateBuild,
    FuncSource,
    MakeSource,
    ProcessBuilder,
    Source,
    TraceSource,
    pack_func,
)
from tuner.errors import TuningError

AUTOGROUP = Path("/proc/self/autogroup")


@pytest.fixture(scope="module")
def builder() -> Iterator[ProcessBuilder]:
    made = ProcessBuilder(2, memory_bytes=4 << 30)
    yield made
    made.close()


def request(source: Source, timeout_s: float = 120.0) -> BuildRequest:
    return BuildRequest(source, build_makers.TARGET, timeout_s=timeout_s)


def run(builder: ProcessBuilder, source: Source, timeout_s: float = 120.0) -> CandidateBuild:
    return builder.submit(request(source, timeout_s)).result(timeout=300)


def loads(result: CandidateBuild) -> bool:
    assert result.artifact is not None, result.text
    return load_artifact(Artifact.from_bytes(result.artifact)).entry_func is not None


def test_the_kinds_of_source(builder: ProcessBuilder) -> None:
    func = build_makers.add_one()
    schedule = Schedule(func)
    schedule.vectorize(schedule.get_loops(schedule.get_block("b"))[0])
    for source in (
        TraceSource(pack_func(func), None),
        TraceSource(pack_func(func), schedule.trace.to_json()),
        FuncSource(pack_func(schedule.func)),
        MakeSource(build_makers.add_one),
        MakeSource(build_makers.finished),
    ):
        assert loads(run(builder, source))


def test_what_goes_wrong_is_said_and_costs_nobody_else_anything(builder: ProcessBuilder) -> None:
    wrong = {
        build_makers.greedy: (FailureKind.BUILD, "memory limit"),
        build_makers.dying: (FailureKind.BUILD, "SIGABRT"),
        build_makers.leaving: (FailureKind.BUILD, "exit status 3"),
        build_makers.buggy: (FailureKind.BUILD, "ZeroDivisionError: my own mistake"),
    }
    outcomes = []
    for make in wrong:
        outcomes.append(builder.submit(request(MakeSource(make))))
        outcomes.append(builder.submit(request(MakeSource(build_makers.add_one))))
    results = [outcome.result(timeout=300) for outcome in outcomes]
    for (kind, text), result in zip(wrong.values(), results[::2]):
        assert (result.artifact, result.failure) == (None, kind)
        assert text in result.text
    assert all(loads(result) for result in results[1::2])


def test_a_trace_that_does_not_apply(builder: ProcessBuilder) -> None:
    func = build_makers.add_one()
    schedule = Schedule(func)
    schedule.split(schedule.get_loops(schedule.get_block("b"))[0], [None, 4])
    text = schedule.trace.to_json().replace('"b"', '"nobody"')
    result = run(builder, TraceSource(pack_func(func), text))
    assert result.failure is FailureKind.INSTANTIATE
    assert "nobody" in result.text


def test_time_limits(builder: ProcessBuilder) -> None:
    run(builder, MakeSource(build_makers.add_one))  # the workers are up
    slow = run(builder, MakeSource(build_makers.slow), 0.3)
    assert (slow.failure, slow.text) == (FailureKind.BUILD_TIMEOUT, "the build took longer than 0.3 s")
    stuck = run(builder, MakeSource(build_makers.stuck), 0.5)
    assert stuck.failure is FailureKind.BUILD_TIMEOUT
    assert "hung in machine code" in stuck.text
    assert loads(run(builder, MakeSource(build_makers.add_one)))


def test_garbage_is_looked_for_seldom_in_a_worker(builder: ProcessBuilder) -> None:
    text = run(builder, MakeSource(build_makers.collections)).text
    assert text.strip().endswith("objects before it is collected: 50000")


def test_what_cannot_be_sent_to_a_worker(builder: ProcessBuilder) -> None:
    result = run(builder, MakeSource(lambda: build_makers.add_one()))
    assert result.failure is FailureKind.BUILD
    assert "could not be sent to a worker" in result.text


def test_workers_are_forked_from_one_process_without_threads(
    builder: ProcessBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = set()
    for value in ("before", "after"):
        monkeypatch.setenv("OF_THE_TUNER", value)
        run(builder, MakeSource(build_makers.leaving))  # the next worker is a new one
        said = run(builder, MakeSource(partial(build_makers.asked, "OF_THE_TUNER"))).text
        assert f"OF_THE_TUNER is {value}," in said
        parents.add(int(said.split("parent ")[-1].split(".")[0]))
    [server] = parents
    assert psutil.Process(server).ppid() == os.getpid()
    assert psutil.Process(server).num_threads() == 1


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this system has no autogroups")
def test_workers_give_way_to_processes_of_other_sessions(builder: ProcessBuilder) -> None:
    said = run(builder, MakeSource(partial(build_makers.asked, "HOME"))).text
    worker = int(said.split("process ")[-1].split(",")[0])
    assert psutil.Process(worker).nice() == 19
    assert os.getsid(worker) == worker
    until(lambda: nice_of_group(worker)[1] == 10)
    assert nice_of_group(worker)[0] not in AUTOGROUP.read_text().split()  # empty where nobody began a session


def nice_of_group(process: int) -> tuple[str, int]:
    """The autogroup's name and its nice value."""
    name, _, nice = Path(f"/proc/{process}/autogroup").read_text().split()
    return name, int(nice)


def test_a_terminals_ctrl_c_is_not_for_the_fork_server() -> None:
    script = """
from multiprocessing import forkserver
from tuner.build.spawning import start_fork_server

start_fork_server()
for line in open(f"/proc/{forkserver._forkserver._forkserver_pid}/status"):
    if line.startswith("SigBlk:"):
        print(int(line.split()[1], 16) >> 1 & 1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("1\n", "")  # from its first instruction on


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_cannot_be_forked_costs_one_build_at_most(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The process they are forked from was killed just now; the next attempt starts another one."""
    fork, failures = forkserver.connect_to_new_process, [EOFError("unexpected EOF")] * times

    def connect(fds: list[int]) -> object:
        if failures:
            raise failures.pop()
        return fork(fds)

    monkeypatch.setattr(forkserver, "connect_to_new_process", connect)
    made = ProcessBuilder(1)
    first = run(made, MakeSource(build_makers.add_one))
    assert loads(first) if times == 1 else "no build worker could be started: unexpected EOF" in first.text
    assert loads(run(made, MakeSource(build_makers.add_one)))
    made.close()


def test_closing_answers_everyone() -> None:
    made = ProcessBuilder(1)
    outcomes = [made.submit(request(MakeSource(build_makers.slow))) for _ in range(3)]
    made.close()
    results = [outcome.result(timeout=300) for outcome in outcomes]
    assert {r.failure for r in results} == {FailureKind.BUILD}


@pytest.mark.parametrize("text", ["0", "-1", "many", "dask://", "dask://host", "http://host:1"])
def test_what_names_no_builders(text: str) -> None:
    with pytest.raises(TuningError, match="names no builders"):
        check_builders(text)


def test_a_number_is_so_many_processes() -> None:
    made = make_builder("3")
    assert made.workers == 3
    made.close()
