"""One model by one runtime: built, run once, then timed once for each line on standard input. Run by models.py.

    python benchmarks/peers/models.py onnxruntime model.onnx inputs.npz output.npy 2

Needs what the runtime needs and numpy; nothing of tunefarm, except "tunefarm" itself, which takes a built model.
"""

import json
import os
import sys
import time

PEER, MODEL, INPUTS, OUTPUT, THREADS = sys.argv[1:6]
PRECISION = sys.argv[6] if len(sys.argv) > 6 else "float32"
TRIALS = int(sys.argv[7]) if len(sys.argv) > 7 else 0  # for each kernel, of runtimes that tune
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
    os.environ[_name] = THREADS

import numpy as np  # noqa: E402  (reads the number of threads when it is imported)

_PATIENCE_S = 300.0  # TVM's workers import TVM within the limit, which takes longer than 30 s on a busy machine
_SAMPLE_S = 0.2
"""A sample is the mean of calls for so long, and of one call at least."""
_WARM_S = 0.1
"""Calls for so long come before it. Threads of the runtime before may wait busily meanwhile, onnxruntime's for 0.05 s;
a pause would leave the cores idle, and slower for a while. Calls that take longer than a sample need none."""


def tunefarm(model, threads):
    import tunefarm as tvm
    from tunefarm import relax

    tvm.runtime.set_num_threads(threads)
    machine = relax.VirtualMachine(tvm.runtime.load_module(model), tvm.cpu())
    return lambda given: (lambda held: lambda: machine["main"](*held))([tvm.nd.array(a) for a in given.values()])


def onnxruntime(model, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda given: lambda: session.run(None, given)[0]


def openvino(model, threads):
    import openvino

    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if PRECISION == "bfloat16" else "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(model, "CPU", options)
    request = compiled.create_infer_request()
    return lambda given: lambda: request.infer(given)[compiled.output(0)]


def torch(model, threads):
    """The graph's operators as torch's functions, through torch.compile. What inductor's patterns fail on, such as a
    mask that all heads of an attention share, is compiled without them."""
    import torch as pytorch
    from onnx_by_torch import compiled

    pytorch.set_num_threads(threads)
    module = compiled(model)

    def ready(given):
        held = [pytorch.from_numpy(array) for array in given.values()]

        def call():
            with pytorch.inference_mode(), pytorch.autocast("cpu", pytorch.bfloat16, enabled=PRECISION == "bfloat16"):
                return module(*held).float().numpy()

        try:
            call()
        except pytorch._dynamo.exc.BackendCompilerFailed:
            pytorch._inductor.config.pattern_matcher = False
            pytorch._dynamo.reset()
        return call

    return ready


def tvm(model, threads):
    """Return what `relax.build` makes without tuning."""
    import onnx
    import tvm as apache
    from tvm.relax.frontend.onnx import from_onnx

    target = apache.target.Target({"kind": "llvm", "mcpu": apache.target.codegen.llvm_get_system_cpu()})
    with target:
        built = apache.relax.build(from_onnx(onnx.load(model)), target)
    machine = apache.relax.VirtualMachine(built, apache.cpu())
    array = apache.nd.array if hasattr(apache, "nd") else apache.runtime.tensor

    def ready(given):
        held = [array(item) for item in given.values()]
        return lambda: machine["main"](*held)

    return ready


def metaschedule(model, threads):
    """TVM's pipeline for shapes that are known: tuned, with weights packed ahead."""
    import tempfile

    import onnx
    import tvm as apache
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
    from tvm.s_tir import meta_schedule as tuning

    cpu = apache.target.codegen.llvm_get_system_cpu()
    target = apache.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
    made = relax.transform
    before = [made.DecomposeOpsForInference(), made.CanonicalizeBindings(), relax.get_pipeline("zero")]
    after = [made.SplitLayoutRewritePreproc(), made.LiftTransformParams(), made.FoldConstant()]
    module = from_onnx(onnx.load(model))
    with target, tempfile.TemporaryDirectory() as folder:
        module = apache.transform.Sequential([*before, made.AttachAttrLayoutFreeBuffers()])(module)
        began = time.perf_counter()
        count = TRIALS * len(tuning.relax_integration.extract_tasks(module, target, {}))
        tuning.relax_integration.tune_relax(
            module, {}, target, folder, count, TRIALS, builder=tuning.builder.LocalBuilder(timeout_sec=_PATIENCE_S),
            runner=tuning.runner.LocalRunner(timeout_sec=_PATIENCE_S), seed=1,
        )  # fmt: skip
        SPENT.update(tuning_s=time.perf_counter() - began, trials=count)
        tuned = apache.transform.Sequential([made.MetaScheduleApplyDatabase(folder), *after])(module)
    machine = relax.VirtualMachine(apache.compile(tuned, target=target), apache.cpu())

    def ready(given):
        held = [apache.runtime.tensor(item) for item in given.values()]
        return lambda: machine["main"](*held)

    return ready


SPENT = {}
"""What a runtime that tunes says of it."""


def peak_megabytes():
    """The most memory this process had. What getrusage says counts the process that it was forked from, too."""
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def main():
    given = dict(np.load(INPUTS))
    began = time.perf_counter()
    call = globals()[PEER](MODEL, int(THREADS))(given)
    made = call()
    seconds = time.perf_counter() - began
    np.save(OUTPUT, np.asarray(made if isinstance(made, np.ndarray) else made.numpy()))
    call()
    megabytes = peak_megabytes()
    print(json.dumps({"ready_s": seconds, "megabytes": megabytes, **SPENT}), flush=True)
    spent, calls = 0.0, 1
    for _ in sys.stdin:
        began = time.perf_counter()
        while spent / calls < _SAMPLE_S and time.perf_counter() - began < _WARM_S:
            call()
        began, busy, calls = time.perf_counter(), time.process_time(), 0
        while calls == 0 or time.perf_counter() - began < _SAMPLE_S:
            call()
            calls += 1
        spent, used = time.perf_counter() - began, time.process_time() - busy
        print(json.dumps({"ms": 1e3 * spent / calls, "cpu_ms": 1e3 * used / calls}), flush=True)


if __name__ == "__main__":
    main()
