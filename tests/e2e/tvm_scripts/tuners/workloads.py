"""Pieces that meta_schedule's own tests and tutorials are written with."""
from tvm import meta_schedule as ms
from tvm.meta_schedule.testing import te_workload
from tvm.meta_schedule.testing.space_generation import generate_design_space, get_rules
from tvm.meta_schedule.testing.te_workload import create_te_workload
from tvm.target import Target
from tvm.te import create_prim_func

mod = create_te_workload("GMM", 0)
print([p.name for p in mod.params] if hasattr(mod, "params") else type(mod).__name__)
print([tuple(int(s) for s in b.shape) for b in mod.buffer_map.values()])
for name in ["C1D", "C2D", "C3D", "CAP", "DEP", "DIL", "GRP", "T2D", "CBR", "TBG", "NRM", "SFM"]:
    f = create_te_workload(name, 0)
    print(name, [tuple(int(s) for s in f.buffer_map[p].shape) for p in f.params])
m = create_prim_func(te_workload.matmul(32, 16, 8))
print(len(m.params))
m2 = create_prim_func(te_workload.matmul_relu(32, 16, 8))
print(len(m2.params))
sketches = generate_design_space("llvm", create_prim_func(te_workload.matmul(64, 64, 64)), Target("llvm --num-cores=4"), types=ms.schedule_rule.ScheduleRule)
print(len(sketches) > 0, type(sketches[0]).__name__)
print([type(r).__name__ for r in get_rules("llvm", ms.schedule_rule.ScheduleRule)])
