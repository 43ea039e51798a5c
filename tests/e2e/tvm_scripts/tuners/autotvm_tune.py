"""A short tuning by autotvm on this machine, its log, the best config applied."""

import logging
import os
import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import autotvm, te

logging.getLogger("autotvm").setLevel(logging.ERROR)


@autotvm.template("scripts/axpy")
def axpy(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0 + 1.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", s[B].op.axis[0], num_outputs=2, filter=lambda e: e.size[-1] in (4, 16, 64, 256))
    outer, inner = cfg["tile"].apply(s, B, s[B].op.axis[0])
    s[B].vectorize(inner)
    return s, [A, B]


task = autotvm.task.create("scripts/axpy", args=(1024,), target="llvm")
print(len(task.config_space))
log = os.path.join(tempfile.mkdtemp(), "log.json")
seen = []


def count(tuner, inputs, results):
    seen.extend(r.error_no for r in results)


tuner = autotvm.tuner.GridSearchTuner(task)
tuner.tune(
    n_trial=4,
    measure_option=autotvm.measure_option(
        builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(number=2, repeat=1, min_repeat_ms=0)
    ),
    callbacks=[autotvm.callback.log_to_file(log), count],
)
print(len(seen), seen == [0] * len(seen), len(open(log).read().splitlines()))
records = list(autotvm.record.load_from_file(log))
print(len(records), all(len(r.costs) == 1 for _, r in records), sorted(i.config.index for i, _ in records))
with autotvm.apply_history_best(log), tvm.target.Target("llvm"):
    s, args = axpy(1024)
    f = tvm.build(s, args)
a, b = tvm.nd.array(np.arange(1024, dtype="float32")), tvm.nd.empty((1024,))
f(a, b)
tvm.testing.assert_allclose(b.numpy(), a.numpy() * 2 + 1)
best = os.path.join(os.path.dirname(log), "best.json")
autotvm.record.pick_best(log, best)
print(len(open(best).read().splitlines()))
