"""Records of autotvm: as text and back, the best of a file, the config for a workload."""

import io
import json
import os
import tempfile

import tvm
from tvm import autotvm, te
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.record import decode, encode, load_from_file, pick_best


@autotvm.template("prog/scale")
def scale(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, B, B.op.axis[0])
    return s, [A, B]


task = autotvm.task.create("prog/scale", args=(64,), target="llvm -mcpu=core2")
print(task.name, task.args, len(task.config_space), task.workload, int(task.flop))
target = tvm.target.Target("llvm -mcpu=core2")
records = []
for index, cost in ((0, 0.5), (3, 0.1), (5, 0.9)):
    inp = MeasureInput(target, task, task.config_space.get(index))
    res = MeasureResult([cost, cost * 2], MeasureErrorNo.NO_ERROR, 1.5, 1000.0)
    text = encode(inp, res, "json")
    data = json.loads(text)
    print(
        sorted(data), data["config"]["index"], data["result"][0], data["result"][1], data["input"][1], data["input"][2]
    )
    back, result = decode(text)
    print(back.task.name, back.config.index, result.costs, result.error_no, back.task.args)
    records.append(text)
bad = encode(
    MeasureInput(target, task, task.config_space.get(1)),
    MeasureResult(("boom",), MeasureErrorNo.RUNTIME_DEVICE, 1.0, 1001.0),
    "json",
)
records.append(bad)
folder = tempfile.mkdtemp()
path = os.path.join(folder, "log.json")
with open(path, "w") as file:
    file.write("\n".join(records) + "\n")
print(len(list(load_from_file(path))))
best = os.path.join(folder, "best.json")
pick_best(path, best)
print([inp.config.index for inp, _ in load_from_file(best)])
with autotvm.apply_history_best(path) as context:
    with target:
        s, args = scale(64)
        print(len(args), context.query(target, task.workload).index)
with autotvm.apply_history_best(io.StringIO(records[0] + "\n")) as context:
    print(context.query(target, task.workload).index)
with target:
    with autotvm.FallbackContext() if hasattr(autotvm, "FallbackContext") else autotvm.task.FallbackContext():
        print(autotvm.task.DispatchContext.current is not None)
print(int(MeasureErrorNo.BUILD_TIMEOUT), int(MeasureErrorNo.RUNTIME_DEVICE), int(MeasureErrorNo.WRONG_ANSWER))
with autotvm.task.ApplyConfig(task.config_space.get(2)):
    with target:
        s, args = scale(64)
        print([x.var.name for x in s[args[1]].leaf_iter_vars])
