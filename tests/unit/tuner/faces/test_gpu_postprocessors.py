"""Postprocessors for GPUs, profilers and features of meta_schedule, under TVM's names."""

from __future__ import annotations

import pytest

import tunefarm as tvm
from tunefarm import meta_schedule as ms
from tunefarm.meta_schedule.testing.space_generation import check_sketches, generate_design_space
from tunefarm.script import tir as T
from tunefarm.target import Target


@T.prim_func
def copies(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    for i in range(4096):
        with T.block("B"):
            vi = T.axis.spatial(4096, i)
            B[vi] = A[vi] + T.float32(1)


def applied(postproc: ms.Postproc, sch: tvm.tir.Schedule, target: str = "nvidia/geforce-rtx-3080") -> bool:
    rules = ms.space_generator.PostOrderApply(sch_rules=[], postprocs=[postproc], mutator_probs={})
    context = ms.TuneContext(copies, target=Target(target), space_generator=rules)
    return bool(context.space_generator.postprocs[0].apply(sch))


def test_a_block_without_threads_gets_them() -> None:
    sch = tvm.tir.Schedule(copies)
    assert applied(ms.postproc.RewriteUnboundBlock(), sch)
    tags = [sch.get(loop).thread_binding.thread_tag for loop in sch.get_loops(sch.get_block("B"))]
    assert tags == ["blockIdx.x", "threadIdx.x"]


@pytest.mark.parametrize(("threads", "kept"), [(1024, True), (2048, False)])
def test_too_many_threads_are_given_up(threads: int, kept: bool) -> None:
    sch = tvm.tir.Schedule(copies)
    outer, inner = sch.split(sch.get_loops(sch.get_block("B"))[0], factors=[None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    assert applied(ms.postproc.VerifyGPUCode(), sch) is kept


def test_parts_of_a_run_are_timed() -> None:
    with ms.Profiler() as profiler, ms.Profiler.timeit("part"):
        assert ms.Profiler.current() is profiler
    seconds = profiler.get()
    assert list(seconds) == ["part", "Total"]
    assert seconds["Total"] >= seconds["part"]
    assert [line.split()[0] for line in profiler.table().splitlines()] == ["part", "Total"]
    assert ms.Profiler.current() is None


def test_features_are_drawn() -> None:
    extractor = ms.feature_extractor.RandomFeatureExtractor(feature_size=7, max_block_num=3)
    context = ms.TuneContext()
    found = extractor.extract_from(context, [ms.MeasureCandidate(tvm.tir.Schedule(copies), [])] * 4)
    assert {array.shape[1] for array in found} == {7}
    assert len(found) == 4
    assert context.num_threads > 0


def test_a_space_of_a_function_is_checked() -> None:
    spaces = generate_design_space("llvm", copies, "llvm -num-cores=4", ms.schedule_rule.AutoInline)
    check_sketches(copies, spaces, expected_mods=[copies], expected_decisions=[[]])


def test_a_record_that_was_read_prints_its_trace_as_the_schedule_does() -> None:
    sch = tvm.tir.Schedule(copies)
    sch.split(sch.get_loops(sch.get_block("B"))[0], factors=[None, 4])
    workload = ms.database.Workload(tvm.IRModule({"main": copies}))
    record = ms.database.TuningRecord(sch.trace, workload, [1.5], Target("llvm"), None)
    again = ms.database.TuningRecord.from_json(record.as_json(), workload)
    assert str(again.trace) == str(sch.trace)
