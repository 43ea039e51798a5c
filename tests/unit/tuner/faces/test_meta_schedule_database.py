"""Databases of meta_schedule: what is committed is found again, for the right module and the right machine."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from tests.kit.compiler.schedules import workloads as w
from tests.kit.threads import in_threads
from tunefarm import meta_schedule as ms
from tuner.errors import TuningError
from tuner.faces.meta_schedule.databases.database import (
    Database,
    MemoryDatabase,
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    UnionDatabase,
)
from tuner.faces.meta_schedule.databases.json_database import JSONDatabase
from tuner.faces.meta_schedule.databases.sql_database import SQLDatabase
from tuner.faces.meta_schedule.measure_callback import AddToDatabase
from tuner.faces.meta_schedule.measure_types import BuilderResult, RunnerResult
from tuner.faces.meta_schedule.record import FAILED_S, ArgInfo, MeasureCandidate, TuningRecord, Workload

ZEN = Target("llvm -mcpu=znver3 -mtriple=x86_64-unknown-linux-gnu -num-cores=2")
V3 = Target("llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu -num-cores=2")
SPR = Target("llvm -mcpu=sapphirerapids -mtriple=x86_64-unknown-linux-gnu -num-cores=2")
ARM = Target("llvm -mcpu=cortex-a72 -mtriple=aarch64-unknown-linux-gnu -num-cores=2")


def matmul() -> IRModule:
    return IRModule({"main": w.matmul(12, 8, 4)})


def renamed() -> IRModule:
    """The same function by other names."""
    return IRModule({"main": w.matmul(12, 8, 4).with_attr("global_symbol", "other")})


def record(mod: IRModule, factor: int, *secs: float, target: Target = ZEN) -> TuningRecord:
    sch = Schedule(mod)
    sch.split(sch.get_loops(sch.get_block("C"))[0], [None, factor])
    return TuningRecord(sch.trace, Workload(mod), secs, target, tuple(ArgInfo.from_entry_func(mod)))


KINDS = ["memory", "json", "sql"]


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    match request.param:
        case "memory":
            yield MemoryDatabase()
        case "json":
            yield JSONDatabase(work_dir=str(tmp_path))
        case _:
            opened = SQLDatabase(str(tmp_path / "records.db"), verified=True)
            yield opened
            opened.close()


class TestEveryKind:
    def test_a_workload_is_known_by_its_structure(self, database):
        assert not database.has_workload(matmul())
        workload = database.commit_workload(matmul())
        assert database.has_workload(renamed())
        assert database.commit_workload(renamed()) == workload
        assert not database.has_workload(IRModule({"main": w.matmul(12, 8, 5)}))

    def test_the_fastest_come_first(self, database):
        workload = database.commit_workload(matmul())
        for factor, secs in ((2, 3.0), (4, 1.0), (6, 2.0)):
            database.commit_tuning_record(record(matmul(), factor, secs))
        found = database.get_top_k(workload, 2)
        assert [r.run_secs for r in found] == [(1.0,), (2.0,)]
        assert database.get_top_k(workload, 0) == []
        assert len(database) == 3
        assert len(database.get_all_tuning_records()) == 3

    def test_the_function_as_written_is_none_of_the_fastest(self, database):
        workload = database.commit_workload(matmul())
        database.commit_tuning_record(TuningRecord(Schedule(matmul()).trace, workload, (0.5,), ZEN))
        database.commit_tuning_record(record(matmul(), 4, 1.0))
        assert [r.run_secs for r in database.get_top_k(workload, 2)] == [(1.0,)]
        assert len(database.get_all_tuning_records()) == 2
        with pytest.raises(ValueError, match="top_k is at least 0, got -1"):
            database.get_top_k(workload, -1)

    def test_a_query_gives_the_schedule(self, database):
        database.commit_workload(matmul())
        best = record(matmul(), 4, 1.0)
        database.commit_tuning_record(record(matmul(), 2, 3.0))
        database.commit_tuning_record(best)
        assert database.query_tuning_record(matmul(), ZEN).trace == best.trace
        wanted = best.schedule()
        assert database.query_schedule(matmul(), ZEN).func.script() == wanted.func.script()
        assert database.query_ir_module(matmul(), ZEN).script() == wanted.mod.script()
        for kind, type_ in (("schedule", Schedule), ("record", TuningRecord), ("ir_module", IRModule)):
            assert isinstance(database.query(matmul(), ZEN, kind=kind), type_)
        with pytest.raises(TuningError, match="no kind of query 'best'"):
            database.query(matmul(), ZEN, kind="best")

    def test_another_machine_gets_nothing(self, database):
        database.commit_workload(matmul())
        database.commit_tuning_record(record(matmul(), 4, 1.0, target=SPR))
        assert database.query_schedule(matmul(), ARM) is None
        assert database.query_schedule(matmul(), ZEN) is None  # its code may use AVX-512
        assert database.query_schedule(matmul(), SPR) is not None

    def test_the_target_itself_comes_before_one_whose_code_also_runs(self, database):
        database.commit_workload(matmul())
        database.commit_tuning_record(record(matmul(), 2, 1.0, target=V3))
        assert database.query_tuning_record(matmul(), ZEN).target == V3
        database.commit_tuning_record(record(matmul(), 4, 2.0, target=ZEN))
        assert database.query_tuning_record(matmul(), ZEN).target == ZEN

    def test_what_failed_when_measured_again_is_served_no_more(self, database):
        workload = database.commit_workload(matmul())
        for factor, secs in ((2, 1.0), (4, 2.0)):
            database.commit_tuning_record(record(matmul(), factor, secs, target=V3))
            database.commit_tuning_record(record(matmul(), factor, secs))
        database.reject(record(matmul(), 8))  # it has no time to begin with
        database.reject(record(matmul(), 2))
        assert database.query_tuning_record(matmul(), ZEN).trace == record(matmul(), 4).trace
        assert database.get_top_k(workload, 1)[0].target == V3
        database.reject(record(matmul(), 4))
        assert database.query_tuning_record(matmul(), ZEN).target == V3
        database.commit_tuning_record(record(matmul(), 2, 1.5))
        assert database.query_tuning_record(matmul(), ZEN).run_secs == (1.5,)

    def test_the_callback_rejects_what_is_disqualified_only(self, database):
        database.commit_workload(matmul())
        schedule = Schedule(matmul())
        schedule.split(schedule.get_loops(schedule.get_block("C"))[0], [None, 4])
        candidate = MeasureCandidate(schedule, tuple(ArgInfo.from_entry_func(matmul())))
        run = SimpleNamespace(database=database, tasks=[SimpleNamespace(mod=matmul(), target=ZEN)])

        def told(result: RunnerResult) -> TuningRecord | None:
            AddToDatabase().apply(run, 0, [candidate], [BuilderResult(None, result.error_msg)], [result])
            return database.query_tuning_record(matmul(), ZEN)

        assert told(RunnerResult([1.0], None)) is not None
        assert told(RunnerResult(None, "device_lost: the box is gone")) is not None
        assert told(RunnerResult(None, "crash: in the finals", disqualified=True)) is None
        assert told(RunnerResult([2.0], None)).run_secs == (2.0,)

    def test_a_record_without_a_target_is_rejected_quietly(self, database):
        database.commit_workload(matmul())
        database.reject(replace(record(matmul(), 2), target=None))

    def test_an_unknown_module_has_no_answer(self, database):
        assert database.query_tuning_record(matmul(), ZEN) is None

    def test_a_record_needs_its_workload(self, database):
        with pytest.raises(TuningError, match="not committed"):
            database.commit_tuning_record(record(matmul(), 4, 1.0))

    def test_pruned_keeps_the_best_of_each_target(self, database):
        database.commit_workload(matmul())
        for factor, secs, target in ((2, 3.0, ZEN), (4, 1.0, ZEN), (6, 5.0, SPR)):
            database.commit_tuning_record(record(matmul(), factor, secs, target=target))
        kept = MemoryDatabase()
        database.dump_pruned(kept)
        assert sorted(r.run_secs for r in kept.get_all_tuning_records()) == [(1.0,), (5.0,)]

    def test_a_context_makes_it_current(self, database):
        assert Database.current() is None
        with database:
            assert Database.current() is database
            with MemoryDatabase() as inner:
                assert Database.current() is inner
            assert Database.current() is database
        assert Database.current() is None


def test_create_makes_every_kind(tmp_path):
    assert isinstance(Database.create("memory"), MemoryDatabase)
    assert isinstance(Database.create("json", work_dir=str(tmp_path)), JSONDatabase)
    assert isinstance(Database.create("union", MemoryDatabase()), UnionDatabase)
    assert isinstance(Database.create("ordered_union", MemoryDatabase()), OrderedUnionDatabase)
    assert isinstance(Database.create(lambda sch: True), ScheduleFnDatabase)
    with pytest.raises(TuningError, match="no kind of database 'xml'"):
        Database.create("xml")


def test_the_names_of_the_fields_modules(tmp_path):
    database = ms.database.create("json", work_dir=str(tmp_path))
    assert ms.tir_integration.compile_tir(database, matmul(), ZEN) is None
    sch = Schedule(matmul())
    sch.unroll(sch.get_loops(sch.get_block("C"))[-1])
    workload = database.commit_workload(matmul())
    database.commit_tuning_record(
        TuningRecord(sch.trace, workload, [1e-3], ZEN, tuple(ArgInfo.from_entry_func(sch.mod)))
    )
    found = ms.tir_integration.compile_tir(database, matmul()["main"], str(ZEN))
    assert found is not None
    assert found.mod["main"].script() == sch.mod["main"].script()
    assert ms.tir_integration.tune_tir is ms.tune_tir
    assert isinstance(ms.builder.create("local"), ms.Builder)


def test_an_equality_that_is_not_there_is_refused():
    with pytest.raises(TuningError, match="anchor-block"):
        MemoryDatabase(module_equality="anchor-block")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------- unions


def two() -> tuple[MemoryDatabase, MemoryDatabase]:
    first, second = MemoryDatabase(), MemoryDatabase()
    for database, factor, secs in ((first, 2, 3.0), (second, 4, 1.0)):
        database.commit_workload(matmul())
        database.commit_tuning_record(record(matmul(), factor, secs))
    return first, second


def test_a_union_gives_the_best_of_all():
    assert UnionDatabase(*two()).query_tuning_record(matmul(), ZEN).run_secs == (1.0,)


def test_an_ordered_union_gives_the_first_answer():
    assert OrderedUnionDatabase(MemoryDatabase(), *two()).query_tuning_record(matmul(), ZEN).run_secs == (3.0,)


def test_a_union_takes_nothing():
    with pytest.raises(TuningError, match="only answers"):
        UnionDatabase(*two()).commit_workload(matmul())


def test_a_function_answers():
    def split(sch: Schedule) -> bool:
        sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 3])
        return True

    found = ScheduleFnDatabase(split).query_schedule(matmul(), ZEN)
    assert "range(3)" in found.func.script() or "T.grid(4, 3" in found.func.script()
    assert ScheduleFnDatabase(lambda sch: False).query_ir_module(matmul(), ZEN) is None


# -------------------------------------------------------------------------------------- files


def test_files_are_read_back(tmp_path):
    first = JSONDatabase(work_dir=str(tmp_path))
    first.commit_workload(matmul())
    first.commit_tuning_record(record(matmul(), 4, 1.0, 2.0))
    again = JSONDatabase(first.path_workload, first.path_tuning_record, allow_missing=False)
    (found,) = again.get_all_tuning_records()
    assert found == record(matmul(), 4, 1.0, 2.0)
    assert again.has_workload(renamed())


def test_several_writers_lose_nothing(tmp_path):
    databases = [JSONDatabase(work_dir=str(tmp_path)) for _ in range(4)]

    def fill(at: int) -> None:
        database = databases[at]
        mods = [IRModule({"main": w.matmul(12, 8, k)}) for k in (4, 5 + at)]
        for mod in mods:
            database.commit_workload(mod)
            for _ in range(5):
                database.commit_tuning_record(record(mod, 4, 1.0 + at))

    in_threads(fill, range(4))
    merged = JSONDatabase(work_dir=str(tmp_path))
    assert len(merged) == 40
    assert len(merged.workloads) == 5
    assert len(merged.get_top_k(Workload(matmul()), 100)) == 20


def test_missing_files_are_refused_when_asked(tmp_path):
    with pytest.raises(TuningError, match="no file"):
        JSONDatabase(work_dir=str(tmp_path / "none"), allow_missing=False)
    with pytest.raises(TuningError, match="path_workload or work_dir"):
        JSONDatabase()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ('["key", 5]', "a list of its key and its text"),
        ('["key", "def f(: pass"]', "line 2"),
        ('["' + "0" * 64 + '", TEXT]', "has the key"),
    ],
)
def test_a_damaged_workload_is_named(tmp_path, line, message):
    database = JSONDatabase(work_dir=str(tmp_path))
    database.commit_workload(matmul())
    with open(database.path_workload, "a") as file:
        file.write(line.replace("TEXT", json.dumps(matmul().script())) + "\n")
    with pytest.raises(TuningError, match=f"database_workload.json, line 2: .*{message}|{message}"):
        JSONDatabase(work_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[7, []]", "there is no workload 7"),
        ("[0, []]", "a record is a list"),
        ("[0, [{}, null, null, null]]", "not a schedule trace"),
        ('[0, [TRACE, ["x"], null, null]]', "are no seconds"),
        ('[0, [TRACE, [1.0], "lllvm", null]]', "lllvm"),
        ('[0, [TRACE, [1.0], null, [["TENSOR", 5]]]]', "is no argument"),
    ],
)
def test_a_damaged_record_is_named(tmp_path, line, message):
    database = JSONDatabase(work_dir=str(tmp_path))
    database.commit_workload(matmul())
    trace = record(matmul(), 4, 1.0).trace.to_json()
    with open(database.path_tuning_record, "a") as file:
        file.write(line.replace("TRACE", trace) + "\n")
    with pytest.raises(TuningError, match=f"database_tuning_record.json, line 1: .*{message}"):
        JSONDatabase(work_dir=str(tmp_path))


# ------------------------------------------------------------------------------- record store


def test_the_store_keeps_runs_apart_and_what_is_not_verified_is_never_best(tmp_path):
    address = str(tmp_path / "records.db")
    database = SQLDatabase(address)
    workload = database.commit_workload(matmul())
    database.commit_tuning_record(record(matmul(), 4, 1.0))
    assert database.get_top_k(workload, 5) == []
    assert len(database.get_all_tuning_records()) == 1
    database.close()
    checked = SQLDatabase(address, verified=True)
    checked.commit_tuning_record(record(matmul(), 4, 1.0))
    assert len(checked.get_top_k(workload, 5)) == 1
    checked.close()


def test_the_store_takes_only_measured_records(tmp_path):
    database = SQLDatabase(str(tmp_path / "records.db"))
    database.commit_workload(matmul())
    with pytest.raises(TuningError, match="without a time"):
        database.commit_tuning_record(record(matmul(), 4))
    database.close()


def test_a_longer_measurement_stands_for_a_shorter_one_of_the_same_schedule(tmp_path):
    with JSONDatabase(work_dir=str(tmp_path)) as database:
        workload = database.commit_workload(matmul())
        database.commit_tuning_record(record(matmul(), 4, 1.0))  # it was lucky
        database.commit_tuning_record(record(matmul(), 2, 1.5))
        database.commit_tuning_record(record(matmul(), 4, 2.0, 2.1, 2.2))
    for found in (database, JSONDatabase(work_dir=str(tmp_path))):
        assert [r.run_secs for r in found.standing_records(workload)] == [(1.5,), (2.0, 2.1, 2.2)]
        assert [r.run_secs for r in found.get_top_k(workload, 2)] == [(1.0,), (1.5,)]
        assert len(found) == 3
        pruned = MemoryDatabase()
        found.dump_pruned(pruned)
        assert [r.run_secs for r in pruned.get_all_tuning_records()] == [(1.5,)]


def test_a_finalist_counts_by_what_the_finals_measured():
    database = MemoryDatabase()
    workload = database.commit_workload(matmul())
    for samples in ((1.0,) * 6, (2.0, 2.0, 2.0), (0.5,)):  # a search's, the finals', and one that came later
        database.commit_tuning_record(record(matmul(), 4, *samples))
    assert [r.run_secs for r in database.standing_records(workload)] == [(2.0, 2.0, 2.0)]


@pytest.mark.parametrize(("once", "served"), [(1.2, 1.6), (0.8, 0.8)])
def test_a_machine_that_is_slower_at_the_finals_does_not_favour_who_was_not_there(tmp_path, once, served):
    """It serves a finalist, unless what was measured once was faster than half of these were at first.
    One of them was unlucky at first."""
    with JSONDatabase(work_dir=str(tmp_path)) as database:
        database.commit_workload(matmul())
        for factor, *samples in (
            (2, 1.0, 1.0, 1.0), (4, 1.1, 1.1, 1.1), (16, 9.0, 9.0, 9.0), (8, once, once, once),
            (2, *(1.7,) * 6), (4, *(1.6,) * 6), (16, *(1.8,) * 6),
        ):  # fmt: skip
            database.commit_tuning_record(record(matmul(), factor, *samples))
    for found in (database, JSONDatabase(work_dir=str(tmp_path))):
        best = found.query_tuning_record(matmul(), ZEN)
        assert best is not None
        assert best.run_secs is not None
        assert best.run_secs[0] == served


def test_what_was_rejected_stays_so_in_files(tmp_path):
    with JSONDatabase(work_dir=str(tmp_path)) as database:
        database.commit_workload(matmul())
        database.commit_tuning_record(record(matmul(), 2, 1.0))
        database.commit_tuning_record(record(matmul(), 4, 2.0))
        database.reject(record(matmul(), 2))
    again = JSONDatabase(work_dir=str(tmp_path))
    assert again.query_tuning_record(matmul(), ZEN).run_secs == (2.0,)
    assert [r.run_secs for r in again.get_all_tuning_records()] == [(1.0,), (2.0,), (FAILED_S,)]


def test_a_failure_that_tvm_noted_is_not_served():
    database = MemoryDatabase()
    workload = database.commit_workload(matmul())
    database.commit_tuning_record(record(matmul(), 4, FAILED_S))
    assert database.query_tuning_record(matmul(), ZEN) is None
    assert database.get_top_k(workload, 1) == []


def test_a_union_rejects_in_all_of_its_databases():
    both = [MemoryDatabase(), MemoryDatabase()]
    for database in both:
        database.commit_workload(matmul())
        database.commit_tuning_record(record(matmul(), 2, 1.0))
    UnionDatabase(*both).reject(record(matmul(), 2))
    assert all(database.query_tuning_record(matmul(), ZEN) is None for database in both)


def test_a_single_sample_is_not_taken_at_its_word():
    database = MemoryDatabase()
    database.commit_workload(matmul())
    known = record(matmul(), 4, 2.0, 2.0, 2.0)
    database.commit_tuning_record(record(matmul(), 2, 1.9))
    database.commit_tuning_record(known)
    assert database.query_tuning_record(matmul(), ZEN) == known
    better = record(matmul(), 8, 1.7)
    database.commit_tuning_record(better)
    assert database.query_tuning_record(matmul(), ZEN) == better
