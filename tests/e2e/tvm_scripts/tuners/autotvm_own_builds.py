"""Builds of one's own: a linker, build options, a builder that counts, and a loader that looks at what it loads."""

import os
import tempfile
from contextlib import contextmanager

import numpy as np
from tvm import autotvm, te
from tvm.autotvm.measure import MeasureInput, request_remote
from tvm.autotvm.measure.measure_methods import LocalBuilder, LocalRunner
from tvm.contrib import cc

built = []
log = tempfile.mktemp(".log")


def say(*words):
    """Keep words in a file: what measures may be another process."""
    with open(log, "a") as file:
        print(*words, file=file)


def said():
    with open(log) as file:
        lines = sorted(file.read().splitlines())
    os.remove(log)
    return lines


@autotvm.template("demo/own_builds")
def add_rows(n):
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_knob("tile", [1, 2, 4, 8])
    s[b].split(b.op.axis[1], factor=cfg["tile"].val)
    return s, [a, b]


def link(output, objects, **options):
    say("linked", output.rsplit(".", 1)[-1])
    cc.create_shared(output, objects, **options)


link.output_format = "so"


@contextmanager
def loader(remote_kwargs, build_result):
    remote = request_remote(**remote_kwargs)
    say("loads", sorted(remote_kwargs), build_result.arg_info, build_result.error)
    remote.upload(build_result.filename)
    yield remote, remote.load_module(build_result.filename.split("/")[-1])


class Counting(LocalBuilder):
    def build(self, measure_inputs):
        built.append(len(measure_inputs))
        return super().build(measure_inputs)


task = autotvm.task.create("demo/own_builds", args=(16,), target="llvm")
inputs = [MeasureInput(task.target, task, task.config_space.get(i)) for i in range(2)]
timing = {"number": 2, "repeat": 2, "timeout": 30}

option = autotvm.measure_option(
    builder=LocalBuilder(n_parallel=1, build_func=link, build_kwargs={"build_option": {"tir.disable_vectorize": True}}),
    runner=LocalRunner(module_loader=loader, **timing),
)
for result in autotvm.measure.create_measure_batch(task, option)(inputs):
    print(int(result.error_no), len(result.costs), all(cost > 0 for cost in result.costs))
print(said())

option = autotvm.measure_option(
    builder=Counting(n_parallel=1),
    runner=LocalRunner(
        module_loader=autotvm.measure.default_module_loader(
            lambda remote, build_result: say("before", build_result.filename.split(".")[-1])
        ),
        **timing,
    ),
)
tuner = autotvm.tuner.GridSearchTuner(task)
tuner.tune(n_trial=4, measure_option=option)
print(built, said(), tuner.best_config is not None)


def cannot_link(output, objects, **options):
    raise RuntimeError("there is no linker")


cannot_link.output_format = "so"
option = autotvm.measure_option(
    builder=LocalBuilder(n_parallel=1, build_func=cannot_link), runner=LocalRunner(**timing)
)
(result,) = autotvm.measure.create_measure_batch(task, option)(inputs[:1])
print(int(result.error_no), "no linker" in str(result.costs[0]), np.isfinite(result.all_cost))
