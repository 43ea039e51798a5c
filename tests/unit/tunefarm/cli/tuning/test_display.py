"""How a run's progress reads."""

from __future__ import annotations

import io
import json
import re
from types import SimpleNamespace

from rich.console import Console

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.terminal_screen import Screen
from tunefarm.cli.tuning.display import LiveDisplay, PlainDisplay, WhileRead, make_display, status_line, summary_table
from tuner.engine.progress import Snapshot, TaskProgress


def task(**changes) -> TaskProgress:
    values = {
        "name": "matmul:512,512,512:float32",
        "done": 40,
        "budget": 64,
        "flops": 2.0 * 512**3,
        "baseline_cost": 0.5,
        "best_cost": 0.0025,
        "failures": {FailureKind.CRASH: 3, FailureKind.RUN_TIMEOUT: 1},
        "ended": False,
        "error": None,
    }
    return TaskProgress(**{**values, **changes})


def snapshot(*tasks: TaskProgress, **changes) -> Snapshot:
    values = {"run_id": 7, "elapsed_s": 12.5, "devices": 2, "rate": 3.2, "eta_s": 7.5}
    return Snapshot(tasks=tasks, **{**values, **changes})


def test_one_line_says_trials_best_failures_rate_and_time_left():
    assert status_line(snapshot(task())) == (
        "matmul:512,512,512:float32 40/64 best 107 GFLOP/s (200.0x) | failed 3 crash, 1 run_timeout | "
        "2 devices, 3.2 trials/s, 7.50 s left"
    )


def test_before_anything_is_known():
    fresh = task(done=0, baseline_cost=None, best_cost=None, failures={})
    line = status_line(snapshot(fresh, devices=1, rate=0.0, eta_s=None))
    assert line.endswith("0/64 best – | failed none | 1 device, 0.0 trials/s, ? left")


def test_a_model_is_what_its_kernels_take_by_their_calls():
    tasks = (task(model="net", calls=3.0), task(model="net", best_cost=None), task(name="other"))
    (model,) = snapshot(*tasks).models
    assert (model.untuned, model.best) == (2.0, 0.5075)
    assert status_line(snapshot(*tasks)).startswith("net's kernels 507 ms a run (untuned 2.00 s, 3.9x); matmul")
    (unknown,) = snapshot(task(model="net", baseline_cost=None, best_cost=None)).models
    assert unknown.best is None


def test_the_time_of_a_model_rises_only_when_all_finals_are_over_and_says_so():
    searched = task(model="net", lowest_cost=0.0025)
    slower = task(model="net", lowest_cost=0.0025, best_cost=0.005, in_finals=True, ended=True)
    before = snapshot(searched, searched).models[0].best
    between = snapshot(slower, searched)
    assert between.models[0].best == before == 0.005
    assert "net's kernels 5.00 ms a run (untuned 1.00 s, 200.0x); " in status_line(between)
    assert "40/64 final 53.7 GFLOP/s (100.0x)" in status_line(between)
    after = snapshot(slower, slower)
    assert after.models[0].best == 0.01
    assert "net's kernels 10.0 ms a run (untuned 1.00 s, 100.0x), measured again in the finals" in status_line(after)


def test_what_a_minute_more_should_save_is_told_until_the_run_ends():
    tasks = (task(model="net", calls=3.0), task(model="net"))
    (model,) = snapshot(*tasks, minute={"net": 0.25e-3}).models
    assert (model.minute, model.speedup) == (0.25e-3, 200.0)
    assert "200.0x), a minute more should save 250 µs;" in status_line(snapshot(*tasks, minute={"net": 0.25e-3}))
    (ended,) = snapshot(task(model="net", ended=True), minute={"net": 0.25e-3}).models
    assert ended.minute is None


def test_programs_follow_a_run_by_lines_of_json():
    console = Console(file=io.StringIO())
    with make_display(console, as_json=True) as display:
        display.note("device a ready")
        display.update(snapshot(task(model="net", calls=3.0), minute={"net": 0.5}, held_before_s=60.0))
    note, *lines = map(json.loads, console.file.getvalue().splitlines())
    assert note == {"note": "device a ready"}
    told = {
        "model": "net", "untuned_s": 1.5, "now_s": 0.0075, "speedup": 200.0, "next_minute_saves_s": 0.5,
        "in_finals": False,
    }  # fmt: skip
    assert all((line["models"], line["time_left_s"], line["device_seconds"]) == ([told], 7.5, 60.0) for line in lines)


PLACE = "number 2 of 3 in the queue for 1 device, about 4 min"


def test_a_run_that_waits_for_its_turn_shows_its_place():
    waiting = snapshot(task(done=0, failures={}), devices=0, waiting=PLACE)
    assert status_line(waiting).endswith(f"| waiting for a device: {PLACE}")
    plain = io.StringIO()
    with PlainDisplay(plain) as display:
        display.update(waiting)
    assert PLACE in plain.getvalue()
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    with LiveDisplay(terminal) as live:
        live.update(waiting)
        live.update(waiting)
    assert f"waiting for a device: {PLACE}" in terminal.file.getvalue()


def test_when_only_the_finals_are_left():
    assert status_line(snapshot(task(done=64), eta_s=0.0)).endswith("3.2 trials/s, last comparisons")


def test_a_kernel_whose_operations_are_not_known_shows_times():
    assert "best 2.50 ms" in status_line(snapshot(task(flops=0.0)))


def shown(renderable, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue().splitlines()


def test_the_summary_has_a_row_for_each_kernel():
    lines = shown(summary_table(snapshot(task(), task(name="conv2d:…", done=64, best_cost=None))), 120)
    assert "Run 7: 104 trials in 12.5 s" in lines[0]
    assert any("matmul" in line and "200.0x" in line and "2.50 ms" in line for line in lines)
    assert any("conv2d" in line and "–" in line for line in lines)


def test_the_summary_shows_the_baseline_first_and_last_and_what_was_no_work():
    quiet = "\n".join(shown(summary_table(snapshot(task(last_baseline_cost=0.51), overhead=0.034)), 120))
    assert "→ 0.53 GFLOP/s" in quiet
    assert "neither building nor measuring: 3.4% of the run" in quiet
    assert "noisy" not in quiet
    noisy = "\n".join(shown(summary_table(snapshot(task(last_baseline_cost=0.7))), 120))
    assert "untuned took 40% longer at the end, so its times are noisy" in noisy


def test_the_summary_says_which_kernels_became_slower():
    slower = task(name="copy:1024", best_cost=0.625)
    text = " ".join("\n".join(shown(summary_table(snapshot(task(), slower)), 160)).split())
    assert "copy:1024: nothing was as fast as untuned (0.80x)" in text
    assert "matmul: nothing" not in text
    equal = "\n".join(shown(summary_table(snapshot(task(best_cost=0.502))), 160))
    assert "as fast as" not in equal


def test_a_speedup_is_beside_the_shorter_of_the_untuned_times():
    """A machine that was busy while the first was taken makes no kernel better."""
    assert task(last_baseline_cost=0.7).speedup == task().speedup == 200.0
    assert task(last_baseline_cost=0.25).speedup == 100.0


def test_a_terminal_of_80_columns_shows_a_task_on_one_line():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80)
    display = make_display(console)
    assert isinstance(display, LiveDisplay)
    with display:
        display.update(snapshot(task()))
        display.note("device box1:9091/0 ready")
    text = output.getvalue()
    assert "107 GFLOP/s" in text
    assert "2 devices 0% busy, 3.2 trials/s, 7.50 s left" in text
    assert "failed: " in text
    assert "device box1:9091/0 ready" in text


def test_long_names_and_many_failures_stay_within_80_columns():
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80)
    screen = Screen(80)
    long = task(name="conv2d:16,1024,112,112,1024,3,3,stride=2:float32", done=1000, budget=1000, best_cost=1e-5)
    named = task(name="mine[bold]", failures=dict.fromkeys(FailureKind, 100), last_baseline_cost=0.7)
    with make_display(console) as display:
        for share in (0.1, 0.5, 1.0):
            display.update(snapshot(long, named, rate=1234.5, eta_s=3599 * share))
            display.note("slot 0 has no device: [Errno 111] [refused]")
            display._live.refresh()
            screen.feed(output.getvalue())
            output.truncate(0)
            output.seek(0)
            assert any(re.match(r"mine\[bold\] .* 1000 failed$", line) for line in screen.lines), screen.lines
    screen.feed(output.getvalue())
    assert (screen.wrapped, screen.cursor_shown) == (0, True)
    assert [line for line in screen.lines if line] == ["slot 0 has no device: [Errno 111] [refused]"] * 3  # no more
    table = shown(summary_table(snapshot(long, named)), 80)
    assert max(map(len, table)) <= 80
    assert "speedup" in table[1]
    assert long.name in [line.strip() for line in table]  # whole, on a line of its own
    assert not any("…" in line for line in table)


def test_elsewhere_there_are_plain_lines():
    output = io.StringIO()
    display = make_display(Console(file=output))
    assert isinstance(display, PlainDisplay)
    with display:
        display.update(snapshot(task(done=1)))
        display.update(snapshot(task(done=2)))  # too soon for another line
        display.note("device box1:9091/0 ready")
    lines = output.getvalue().splitlines()
    assert [line.split(" best")[0] for line in lines] == [
        "matmul:512,512,512:float32 1/64",
        "device box1:9091/0 ready",
        "matmul:512,512,512:float32 2/64",
    ]


def test_a_run_whose_output_nobody_reads_any_more_is_stopped(monkeypatch):
    told, stops, read = [], [], [True]
    monkeypatch.setattr("tunefarm.cli.tuning.display.nobody_reads", lambda: not read[0])
    watcher = WhileRead(SimpleNamespace(note=told.append))
    watcher.then(lambda: stops.append(True))
    watcher.note("one")
    read[0] = False
    watcher.note("two")
    watcher.note("three")
    assert (told, stops) == (["one"], [True])


def test_a_pipe_that_breaks_under_a_word_stops_the_run_too():
    def broken(_text):
        raise BrokenPipeError

    stops = []
    watcher = WhileRead(SimpleNamespace(note=broken))
    watcher.then(lambda: stops.append(True))
    watcher.note("one")
    watcher.note("two")
    assert stops == [True]


def test_a_kernel_of_less_than_a_microsecond_is_told_in_three_digits():
    text = "\n".join(shown(summary_table(snapshot(task(flops=0.0, baseline_cost=221e-9, best_cost=158e-9))), 120))
    assert "221 ns" in text
    assert "158 ns" in text
