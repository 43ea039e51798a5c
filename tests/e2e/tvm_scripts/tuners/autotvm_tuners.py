"""Tuners of autotvm: grid, random, with callbacks and early stopping."""

from tvm import autotvm, te


@autotvm.template("prog/add_tile")
def add_tile(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 2.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    cfg.define_knob("vec", [0, 1])
    _, xi = cfg["tile"].apply(s, B, B.op.axis[0])
    if cfg["vec"].val:
        s[B].vectorize(xi)
    return s, [A, B]


task = autotvm.task.create("prog/add_tile", args=(16,), target="llvm")
option = autotvm.measure_option(
    builder=autotvm.LocalBuilder(n_parallel=1), runner=autotvm.LocalRunner(number=1, repeat=1, min_repeat_ms=0)
)
seen = []


def callback(tuner, inputs, results):
    seen.append([(i.config.index, int(r.error_no)) for i, r in zip(inputs, results)])


for name in ("GridSearchTuner", "RandomTuner"):
    tuner = getattr(autotvm.tuner, name)(task)
    tuner.tune(n_trial=6, measure_option=option, callbacks=[callback])
    print(
        name,
        len(sum(seen, [])),
        {e for _, e in sum(seen, [])},
        tuner.best_config is not None,
        tuner.best_flops > 0,
        tuner.has_next(),
    )
    if name == "GridSearchTuner":
        print([i for i, _ in sum(seen, [])])
    seen.clear()
tuner = autotvm.tuner.GridSearchTuner(task)
tuner.tune(n_trial=100, measure_option=option, callbacks=[callback])
print(len(sum(seen, [])), len(task.config_space), tuner.has_next())
batch = autotvm.measure.create_measure_batch(task, option)
inputs = [autotvm.measure.MeasureInput(task.target, task, task.config_space.get(i)) for i in range(2)]
print([int(r.error_no) for r in batch(inputs)], batch.n_parallel)
