"""Logs: TVM's format both ways, and the contexts that answer from them."""

from __future__ import annotations

import json
import threading

import pytest

import tunefarm as tvm
from tests.kit.tuner.autotvm_templates import matmul, matmul_task, records
from tunefarm import autotvm, te
from tunefarm.autotvm import record

# a line as TVM's tools write it
FOREIGN = json.dumps(
    {
        "input": ["llvm -keys=cpu -link-params=0 -mcpu=core-avx2", "test/matmul", [64, 64, 64, "float32"], {}],
        "config": {
            "index": 12,
            "code_hash": None,
            "entity": [["tile_y", "sp", [-1, 4]], ["tile_x", "sp", [-1, 16]], ["vectorize", "ot", True]],
        },
        "result": [[0.0011, 0.0012], 0, 1.5, 1600000000.5],
        "version": 0.2,
        "tvm_version": "0.8.dev0",
    }
)


def pair(index=3, cost=0.01):
    ((inp, result),) = records(matmul_task(), lambda c: cost, [index])
    return inp, result


def test_a_record_goes_to_a_line_and_back():
    inp, result = pair()
    line = record.encode(inp, result)
    assert set(json.loads(line)) == {"input", "config", "result", "version", "tvm_version"}
    again = record.decode(line)
    assert again == (inp, result)
    assert record.measure_str_key(again[0]) == record.measure_str_key(inp)


def test_a_line_of_the_fields_tools_is_read():
    inp, result = record.decode(FOREIGN)
    assert inp.target.mcpu == "core-avx2"
    assert inp.task.workload == ("test/matmul", 64, 64, 64, "float32")
    assert inp.config["tile_x"].size == [-1, 16]
    assert inp.config["vectorize"].val is True
    assert result == autotvm.MeasureResult((0.0011, 0.0012), 0, 1.5, 1600000000.5)
    schedule, _ = inp.task.instantiate(inp.config)
    assert isinstance(schedule, te.Schedule)


def test_a_failed_trial_has_the_formats_time_and_number():
    inp, _ = pair()
    failed = autotvm.MeasureResult(("it crashed",), autotvm.MeasureErrorNo.RUNTIME_DEVICE, 0.5, 2.0)
    assert json.loads(record.encode(inp, failed))["result"] == [[1e9], 4, 0.5, 2.0]
    assert failed.cost == float("inf")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hello", "not a record"),
        ("{}", "not a record"),
        ("[1]", "not a record"),
        (FOREIGN.replace("llvm -keys", "quantum -keys"), "target that is not known"),
        (FOREIGN.replace('"sp"', '"xx"'), "not the value of a knob"),
        (FOREIGN.replace('"float32"], {}', '"float32"], {"layout": 1}'), "by name: layout"),
    ],
)
def test_what_is_no_record_is_refused(line, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        record.decode(line)
    log = tmp_path / "log"
    log.write_text("# a comment\n\n" + line + "\n")
    with pytest.raises(ValueError, match="line 3: "):
        list(record.load_from_file(log))


def test_records_of_the_oldest_format_are_skipped():
    assert record.decode('{"v": 0.1, "i": [], "r": []}') is None
    with pytest.raises(ValueError, match="JSON, not 'pickle'"):
        record.decode("x", protocol="pickle")


def test_pick_best_keeps_one_record_a_workload_and_target(tmp_path):
    task, other = matmul_task(64), matmul_task(32)
    pairs = [*records(task, lambda c: 1 / (1 + c.index), range(5)), *records(other, lambda c: 2.0, range(3))]
    failed = pairs[0][0], autotvm.MeasureResult(("no",), 4, 0.1, 1.0)
    log, best = tmp_path / "log", tmp_path / "best"
    log.write_text("".join(record.encode(*p) + "\n" for p in [*pairs, failed]))
    record.pick_best(log, best)
    kept = list(record.load_from_file(best))
    assert [(i.task.workload[1], i.config.index, r.cost) for i, r in kept] == [(64, 4, 0.2), (32, 0, 2.0)]


def tile(schedule_and_args):
    schedule, args = schedule_and_args
    return schedule[args[-1]].relations[0].factor


def test_history_answers_by_target_then_model_then_key(tmp_path):
    task = matmul_task()

    def at(target, tile_y, cost):
        index = next(c.index for c in task.config_space if c["tile_y"].size == [-1, tile_y])
        inp = autotvm.MeasureInput(tvm.Target(target), task, task.config_space.get(index))
        return inp, autotvm.MeasureResult((cost,), 0, 0.1, 1.0)

    pairs = [at("llvm", 2, 3.0), at("llvm -mcpu=znver3", 4, 2.0), at("llvm -mcpu=haswell -model=box", 8, 1.0)]
    log = tmp_path / "log"
    log.write_text("".join(record.encode(*p) + "\n" for p in pairs))
    args = (64, 64, 64, "float32")
    for history in (autotvm.apply_history_best(str(log)), autotvm.apply_history_best([pairs[:1], pairs[1:]])):
        for target, expected in (
            ("llvm", 2),
            ("llvm -mcpu=znver3", 4),
            ("llvm -model=box", 8),
            ("llvm -mcpu=skylake", 8),  # the fastest of any with the key cpu
        ):
            with history, tvm.Target(target):
                assert tile(matmul(*args)) == expected
    with history, pytest.raises(ValueError, match="none is current"):
        matmul(*args)
    with history, tvm.Target("llvm"):
        history.update(tvm.Target("llvm"), task.workload, task.config_space.get(5))
        assert tile(matmul(*args)) == task.config_space.get(5)["tile_y"].size[-1]


def test_an_unknown_workload_goes_to_the_context_around_and_falls_back(caplog):
    inner, outer = autotvm.apply_history_best([pair()]), autotvm.apply_history_best([])
    with outer, inner, tvm.Target("llvm"):
        assert autotvm.DispatchContext.current is inner
        assert tile(matmul(48, 48, 48, "float32")) == 1
        assert "nothing was tuned for ('test/matmul', 48, 48, 48, 'float32')" in caplog.text
        caplog.clear()
        matmul(48, 48, 48, "float32")
        assert not caplog.text  # said once
    assert isinstance(autotvm.DispatchContext.current, autotvm.FallbackContext)


def test_a_context_belongs_to_its_thread():
    seen = []
    with autotvm.apply_history_best([pair()]):
        thread = threading.Thread(target=lambda: seen.append(autotvm.DispatchContext.current))
        thread.start()
        thread.join()
    assert isinstance(seen[0], autotvm.FallbackContext)


def test_tasks_and_templates_are_checked():
    with pytest.raises(ValueError, match="no template is called 'nothing'"):
        autotvm.task.create("nothing", (), "llvm")
    with pytest.raises(ValueError, match="is no template"):
        autotvm.task.create(print, (), "llvm")
    with pytest.raises(ValueError, match="by position"):
        matmul(64, 64, 64, dtype="float32")
    with pytest.raises(ValueError, match="called by templates"):
        autotvm.get_config()
    with pytest.raises(ValueError, match="number, text or tensor"):
        autotvm.task.create("test/matmul", (object(),), "llvm")
    with pytest.raises(ValueError, match=r"is tests\.kit\.tuner\.autotvm_templates\.matmul already"):

        @autotvm.template("test/matmul")
        def another():
            """Not the one that is registered."""


def test_a_task_knows_its_work_and_its_tensors():
    assert matmul_task(64).flop == 2 * 64**3
    assert autotvm.task.create(matmul, (8, 8, 8, "float32"), "llvm") == matmul_task(8)

    @autotvm.template("test/double")
    def double(A):
        B = te.compute(A.shape, lambda *i: A(*i) * 2.0, name="B")
        s = te.create_schedule(B.op)
        cfg = autotvm.get_config()
        cfg.define_split("x", B.op.axis[0], num_outputs=2)
        cfg.add_flop(1000)
        if cfg["x"].size[-1] > 4:
            cfg.raise_error("too wide")
        cfg["x"].apply(s, B, B.op.axis[0])
        return s, [A, B]

    task = autotvm.task.create("test/double", (te.placeholder((16,), name="A"),), "llvm")
    assert task.workload == ("test/double", ("TENSOR", (16,), "float32"))
    assert task.flop == 1000
    line = record.encode(autotvm.MeasureInput(task.target, task, task.config_space.get(1)), pair()[1])
    assert record.decode(line)[0].task == task
    task.instantiate(task.config_space.get(2))
    with pytest.raises(autotvm.InstantiationError, match="too wide"):
        task.instantiate(task.config_space.get(4))
