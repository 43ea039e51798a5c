"""A search that the program drives itself, with a builder and a runner of its own."""
import tvm
from tvm import meta_schedule as ms
from tvm import te, tir
from tvm.meta_schedule.builder import BuilderInput, LocalBuilder
from tvm.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerFuture, RunnerInput, RunnerResult
from tvm.meta_schedule.testing.te_workload import matmul
from tvm.meta_schedule.utils import derived_object
from tvm.target import Target

func = te.create_prim_func(matmul(32, 32, 32))
mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def tiled(sch: tir.Schedule):
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, sch.sample_perfect_tile(i, n=2))
    j_0, j_1 = sch.split(j, sch.sample_perfect_tile(j, n=2))
    sch.reorder(i_0, j_0, k, i_1, j_1)


@derived_object
class Future(PyRunnerFuture):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def done(self):
        return True

    def result(self):
        return RunnerResult(self.seconds, None)


@derived_object
class Runner(PyRunner):
    def run(self, runner_inputs):
        return [Future([0.001 * (at + 1)]) for at, _ in enumerate(runner_inputs)]


context = ms.TuneContext(
    mod=mod, target=Target("llvm -num-cores=1"), space_generator=ms.space_generator.ScheduleFn(tiled, sch_rules=[], postprocs=[], mutator_probs={}),
    search_strategy=ms.search_strategy.ReplayTrace(), rand_state=7,
)
spaces = context.generate_design_space()
print(len(spaces), [inst.kind.name for inst in spaces[0].trace.insts if inst.kind.name.startswith("Sample")])
context.pre_tuning(max_trials=8, num_trials_per_iter=3, design_spaces=spaces)
seen = []
rounds = []
while True:
    candidates = context.generate_measure_candidates()
    if candidates is None:
        break
    rounds.append(len(candidates))
    seen += [str(candidate.sch.trace) for candidate in candidates]
    results = [future.result() for future in Runner().run([RunnerInput("x", "cpu", c.args_info) for c in candidates])]
    context.notify_runner_results(candidates, results)
context.post_tuning()
print(rounds, len(seen))
print([str(info.dtype) for info in ms.arg_info.ArgInfo.from_entry_func(mod)], [float(s) for s in results[0].run_secs])
future = RunnerFuture(lambda: False, lambda: RunnerResult(None, "not yet"))
print(bool(future.done()), future.result().error_msg, future.result().run_secs)
(built,) = LocalBuilder().build([BuilderInput(mod, Target("llvm"))])
print(built.artifact_path is not None, built.error_msg)
try:
    ms.search_strategy.ReplayTrace().generate_measure_candidates()
except tvm.error.TVMError:
    print("not begun")
