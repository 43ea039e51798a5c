"""Config spaces of templates: knobs, splits, reorders, annotations; entities and their JSON."""

import tvm
from tvm import autotvm, te


@autotvm.template("scripts/matmul")
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_knob("unroll", [0, 1])
    cfg.define_annotate("ann", [x], policy="try_vec")
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    cfg.add_flop(2 * N * L * M)
    return s, [A, B, C]


task = autotvm.task.create("scripts/matmul", args=(32, 32, 32, "float32"), target="llvm")
space = task.config_space
print(len(space), list(space.space_map), task.name, task.flop, str(task.target.kind.name))
print(
    len(space.space_map["tile_y"]),
    space.space_map["tile_y"].entities[0].size,
    space.space_map["unroll"].entities[1].val,
)
config = space.get(7)
print(config.index, config["tile_y"].size, config["tile_x"].size, config["unroll"].val, config["ann"].anns)
print(config.to_json_dict()["index"], [e[0] for e in config.to_json_dict()["entity"]])
again = autotvm.ConfigEntity.from_json_dict(config.to_json_dict())
print(again["tile_y"].size == config["tile_y"].size, again.index == config.index)
with tvm.target.Target("llvm"):
    s, args = task.instantiate(config)
print(len(args), [t.op.name for t in args])
print(task.workload[0], task.args)
inp = autotvm.MeasureInput(tvm.target.Target("llvm"), task, config)
res = autotvm.MeasureResult((0.001, 0.002), 0, 1.0, 12345.0)
line = autotvm.record.encode(inp, res)
inp2, res2 = autotvm.record.decode(line)
print(
    res2.costs,
    res2.error_no,
    inp2.config.index,
    inp2.task.workload[0],
    autotvm.record.measure_str_key(inp) == autotvm.record.measure_str_key(inp2),
)
with autotvm.apply_history_best([(inp, res)]), tvm.target.Target("llvm"):
    s, args = matmul(32, 32, 32, "float32")
    print(len(s.stages))
f = autotvm.task.space.FallbackConfigEntity()
print(f.is_fallback, config.is_fallback, space.is_index_valid(3) if hasattr(space, "is_index_valid") else True)
