"""Spaces of autotvm: knobs, splits, orders and annotations, by index and by name."""

import json

from tvm import te
from tvm.autotvm.task.space import ConfigEntity, ConfigSpace, FallbackConfigEntity, OtherOptionEntity, SplitEntity

cfg = ConfigSpace()
cfg.define_knob("unroll", [0, 16, 64])
cfg.define_split("tile_x", cfg.axis(16), num_outputs=2)
cfg.define_split("tile_k", cfg.axis(12), policy="power2", num_outputs=3)
cfg.define_split("tile_v", cfg.axis(8), policy="verbose", num_outputs=2)
cfg.define_split("tile_c", cfg.axis(8), policy="candidate", num_outputs=3, candidate=[[1, 2, 4], [2, 2, 2]])
a, b = cfg.axis(4), cfg.axis(8)
cfg.define_reorder("order", [a, b], policy="all")
cfg.define_annotate("ann", [cfg.axis(4), cfg.axis(4)], policy="try_vec")
print(len(cfg), {name: len(space) for name, space in cfg.space_map.items()})
print(
    cfg.range_length if hasattr(cfg, "range_length") else len(cfg),
    cfg.is_fallback if hasattr(cfg, "is_fallback") else None,
)
for index in (0, 1, 17, len(cfg) - 1):
    entity = cfg.get(index)
    print(
        index, entity.index, entity["unroll"].val, entity["tile_x"].size, entity["tile_k"].size, entity["tile_c"].size
    )
    data = entity.to_json_dict()
    print(json.dumps(data, sort_keys=True))
    again = ConfigEntity.from_json_dict(data)
    print(again.index == entity.index, again["tile_x"].size == entity["tile_x"].size, str(entity) == str(again))
print([e.size for e in cfg.space_map["tile_x"].entities], [e.size for e in cfg.space_map["tile_c"].entities])
print(
    [e.val for e in cfg.space_map["unroll"].entities],
    [list(e.perm) for e in cfg.space_map["order"].entities],
    [e.anns for e in cfg.space_map["ann"].entities],
)
print(
    cfg.get_other_option() if hasattr(cfg, "get_other_option") else "", cfg.valid() if hasattr(cfg, "valid") else True
)
fall = FallbackConfigEntity()
fall.define_split("tile", fall.axis(32), num_outputs=2)
fall.define_knob("k", [1, 2])
fall.fallback_split("tile", [-1, 8])
print(fall["tile"].size, fall["k"].val, fall.is_fallback)
fall["k"] = OtherOptionEntity(2)
fall["tile"] = SplitEntity([4, 8])
print(fall["k"].val, fall["tile"].size, SplitEntity([1, -1, 4]).size)
A = te.placeholder((16, 16), name="A")
B = te.compute((16, 16), lambda i, j: A[i, j] + 1.0, name="B")
s = te.create_schedule(B.op)
axes = cfg.get(17)["tile_x"].apply(s, B, B.op.axis[0])
print([x.var.name for x in axes], len(s[B].leaf_iter_vars))
cfg.raise_error("bad")
print([str(e) for e in cfg.errors], cfg.valid())
