"""Parts of meta_schedule made by hand: infos of arguments, results, rules, spaces."""

import tvm
from tvm import meta_schedule as ms
from tvm.script import tir as T
from tvm.target import Target


@tvm.script.ir_module
class Mod:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (32, 32), "float32")
        B = T.match_buffer(b, (32, 32), "float32")
        C = T.match_buffer(c, (32, 32), "float32")
        for i, j, k in T.grid(32, 32, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


infos = ms.arg_info.ArgInfo.from_prim_func(Mod["main"])
print(
    [(str(i.dtype), [int(d) for d in i.shape], str(i)) for i in infos], [list(map(str, i.as_json())) for i in infos][:1]
)
print(
    ms.arg_info.TensorInfo("float32", [2, 3]).as_json() is not None,
    ms.arg_info.ArgInfo.from_json(["TENSOR", "float32", [2, 3]]).dtype,
)
result = ms.runner.RunnerResult([0.5, 0.25], None)
print([float(x) for x in result.run_secs], result.error_msg, ms.builder.BuilderResult("path", None).artifact_path)
print(
    ms.runner.RunnerInput("p", "llvm", infos).device_type, ms.builder.BuilderInput(Mod, Target("llvm")).target.kind.name
)
ev = ms.runner.EvaluatorConfig(number=2, repeat=3, min_repeat_ms=4, enable_cpu_cache_flush=True)
print(ev.number, ev.repeat, ev.min_repeat_ms, ev.enable_cpu_cache_flush)
rpc = ms.runner.RPCConfig(tracker_host="h", tracker_port=9, tracker_key="k", session_timeout_sec=5)
print(rpc.tracker_host, rpc.tracker_port, rpc.tracker_key, rpc.session_timeout_sec, rpc.session_priority)


def schedule(sch):
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=16))


space = ms.space_generator.ScheduleFn(schedule)
context = ms.TuneContext(
    mod=Mod,
    target=Target("llvm -num-cores=2"),
    space_generator=space,
    search_strategy="evolutionary",
    task_name="t",
    rand_state=3,
    num_threads=1,
)
designs = space.generate_design_space(Mod)
print(len(designs), [inst.kind.name for inst in designs[0].trace.insts], len(designs[0].trace.decisions))
print(context.task_name, context.num_threads, context.mod is not None, context.target.kind.name)
both = ms.space_generator.SpaceGeneratorUnion(
    [ms.space_generator.ScheduleFn(schedule), ms.space_generator.ScheduleFn(schedule)]
)
ctx2 = ms.TuneContext(
    mod=Mod,
    target=Target("llvm -num-cores=2"),
    space_generator=both,
    search_strategy="replay-trace",
    task_name="u",
    num_threads=1,
)
print(len(both.generate_design_space(Mod)))
names = lambda xs: [type(x).__name__ for x in xs]
print(names(ms.ScheduleRule.create("llvm")), names(ms.Postproc.create("llvm"))[:3])
print(sorted(type(m).__name__ for m in ms.Mutator.create("llvm")))
rule = ms.schedule_rule.MultiLevelTiling(
    structure="SSRSRS",
    tile_binds=None,
    max_innermost_factor=16,
    vector_load_lens=None,
    reuse_read=None,
    reuse_write=ms.schedule_rule.ReuseType(req="may", levels=[1, 2], scope="global"),
)
print(
    type(rule).__name__,
    rule.clone() is not None,
    ms.schedule_rule.ReuseType(req="must", levels=[1], scope="shared").as_dict(),
)
strategy = ms.search_strategy.ReplayTrace(max_fail_count=4)
print(
    strategy.max_fail_count,
    ms.search_strategy.ReplayFunc() is not None,
    ms.search_strategy.EvolutionarySearch(population_size=8).population_size,
)
