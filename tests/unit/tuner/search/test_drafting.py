"""Drafts of many kernels: helpers make the same, and what was drafted once is read from disk."""

from __future__ import annotations

import os
import re
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.faces import kernel_schedules as answers
from tuner.search import draft_cache, drafted, drafting
from tuner.search.draft_cache import DraftCache
from tuner.workloads import WorkloadSpec

TARGET = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=1")


def products() -> list[PrimFunc]:
    return [WorkloadSpec.parse(f"matmul:16,{n},32").prim_func() for n in (16, 24, 32, 40)]


class Pool:
    """Answers each request when the next one comes; the last never."""

    def __init__(self, dies: bool) -> None:
        self.dies = dies
        self.given: list[tuple[Future[Any], tuple[bytes, str]]] = []

    def submit(self, call: Any, *args: Any) -> Future[Any]:
        for future, before in self.given:
            if not future.done():
                if self.dies:
                    future.set_exception(RuntimeError("gone"))
                else:
                    future.set_result(call(*before))
        self.given.append((Future(), args))
        return self.given[-1][0]

    def shutdown(self, wait: bool, cancel_futures: bool) -> None:
        assert cancel_futures


class AtOnce:
    """A thread that is done when it has started."""

    def __init__(self, target: Any, args: tuple[Any, ...], name: str) -> None:
        self.start = lambda: target(*args)


@pytest.mark.parametrize("dies", [False, True])
def test_helpers_draft_what_this_process_would(monkeypatch: pytest.MonkeyPatch, dies: bool) -> None:
    funcs = products()
    monkeypatch.setattr(drafting, "_draft", lambda func, target: f"{target} {func.script()}")
    wanted = [drafting._draft(func, TARGET) for func in funcs]
    monkeypatch.setattr(drafting, "LEAST", 2)
    monkeypatch.setattr(drafting.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(drafting, "start_fork_server", lambda: None)
    pool = Pool(dies)
    monkeypatch.setattr(drafting, "ProcessPoolExecutor", lambda *args, **options: pool)
    monkeypatch.setattr(drafting, "Thread", AtOnce)
    monkeypatch.setattr(drafting, "wait", lambda futures: None)  # as if none of those left had answered
    assert drafting.drafted_kernels(funcs, TARGET) == wanted
    assert len(pool.given) >= 2


def test_a_helper_that_takes_long_to_start_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork server answers when this process has drafted all; the pool is ended then."""
    answers_now, ended = Event(), Event()

    class Slow(Pool):
        def submit(self, call: Any, *args: Any) -> Future[Any]:
            answers_now.wait()
            return super().submit(call, *args)

        def shutdown(self, wait: bool, cancel_futures: bool) -> None:
            ended.set()

    monkeypatch.setattr(drafting, "_draft", lambda func, target: "drafted")
    monkeypatch.setattr(drafting, "LEAST", 2)
    monkeypatch.setattr(drafting.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(drafting, "start_fork_server", lambda: None)
    monkeypatch.setattr(drafting, "ProcessPoolExecutor", lambda *args, **options: Slow(dies=False))
    assert drafting.drafted_kernels(products(), TARGET) == ["drafted"] * 4
    assert not ended.is_set()
    answers_now.set()
    assert ended.wait(60)


def test_without_processes_this_one_drafts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "LEAST", 2)
    monkeypatch.setattr(drafting.os, "sched_getaffinity", lambda pid: {0, 1})

    def refuse() -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr(drafting, "start_fork_server", refuse)
    monkeypatch.setattr(drafting, "_draft", lambda func, target: "drafted")
    assert drafting.drafted_kernels(products(), TARGET) == ["drafted"] * 4


def test_a_draft_is_read_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(draft_cache.VARIABLE, str(tmp_path / "drafts"))
    func = WorkloadSpec.parse("matmul:16,48,32").prim_func()
    answers._prepare([func], TARGET)
    made = answers._pick(func, TARGET)
    monkeypatch.setattr(answers, "_picked", {})
    monkeypatch.setattr(answers, "drafted_kernels", lambda funcs, target: [] if not funcs else pytest.fail("drafted"))
    answers._prepare([func], TARGET)
    again = answers._pick(func, TARGET)
    assert not answers._made
    assert made is not None
    assert again is not None
    assert made.script() == again.script()


def test_what_cannot_be_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DraftCache(tmp_path)
    assert cache.find("k", "t") is None
    cache.keep("k", "t", None)
    assert cache.find("k", "t") == (None,)
    assert cache.find("k", "other") is None
    [file] = tmp_path.iterdir()
    file.write_text("[")
    assert cache.find("k", "t") is None
    assert DraftCache(None).find("k", "t") is None
    monkeypatch.setattr(draft_cache, "MOST_FILES", 1)
    os.utime(file, (1, 1))
    cache.keep("l", "t", "x")
    assert cache.find("k", "t") is None
    assert cache.find("l", "t") == ("x",)


def test_where_drafts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(draft_cache.VARIABLE, "")
    assert draft_cache.default_folder() is None
    monkeypatch.delenv(draft_cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert draft_cache.default_folder() == Path("/somewhere/tunefarm/drafts")


def test_a_prepared_kernel_is_not_scheduled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(draft_cache.VARIABLE, "")
    monkeypatch.setattr(answers, "_picked", {})
    funcs = products()
    answers._prepare(funcs, TARGET)
    with monkeypatch.context() as context:
        context.setattr(answers, "apply_trace", lambda func, trace: pytest.fail("replayed"))
        made = [answers._pick(func, TARGET) for func in funcs]
    again = [answers._pick(func, TARGET) for func in funcs]
    assert [one.script() for one in made if one] == [one.script() for one in again if one]
    assert len(list(filter(None, made))) == len(funcs)


def test_a_sketch_whose_points_fail_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    func = WorkloadSpec.parse("matmul:64,64,64").prim_func()
    first = drafted.drafted(func, TARGET)
    assert first is not None

    def steps(trace: Trace) -> str:
        return re.sub(r"decision=\d+", "", str(trace))

    def apply(func: PrimFunc, trace: Trace) -> Schedule:
        if steps(trace) == steps(first.trace):
            raise ScheduleError("it cannot be applied")
        return apply_trace(func, trace)

    monkeypatch.setattr(drafted, "apply_trace", apply)
    monkeypatch.setattr(drafted, "_TRIED", 1)
    other = drafted.drafted(func, TARGET)
    assert other is not None
    assert steps(other.trace) != steps(first.trace)
