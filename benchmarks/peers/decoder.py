"""A decoder by one runtime: a prompt, then word after word. Run by decoder.py, a line of output for one of input.

    python benchmarks/peers/decoder.py onnxruntime prompt.onnx step.onnx words.npy scores.npy 2

`words`: those of the prompt and those after it, `(batch, words)`; what the model makes of them is not chosen from.
Needs what the runtime needs and numpy; nothing of tunefarm, except "tunefarm" itself, which takes built models.
"""

import json
import os
import sys
import time

PEER, PROMPT, STEP, WORDS, SCORES, THREADS, ROOM = sys.argv[1:8]
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
    os.environ[_name] = THREADS

import numpy as np  # noqa: E402  (reads the number of threads when it is imported)

_ALIGNED = 64  # bytes; what begins so is read where it lies
_WARM_S = 0.1
"""A prompt is read for so long before each sample. Threads of the runtime before may wait busily meanwhile,
onnxruntime's for 0.05 s; a pause would leave the cores idle, and slower for a while."""


def tunefarm(path, threads):
    import tunefarm as tvm
    from tunefarm import relax

    tvm.runtime.set_num_threads(threads)
    machine = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())

    def handed(data):
        return tvm.nd.array(data) if data.ctypes.data % _ALIGNED else tvm.nd.from_dlpack(data)

    return lambda given: [array.numpy() for array in machine["main"](*map(handed, given.values()))]


def onnxruntime(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda given: session.run(None, given)


def openvino(path, threads):
    import openvino

    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(path, "CPU", options)
    request = compiled.create_infer_request()

    def call(given):
        made = request.infer(given, share_inputs=True, share_outputs=True)
        return [made[output] for output in compiled.outputs]

    return call


def torch(path, threads):
    """The graph's operators as torch's functions, through torch.compile."""
    import torch as pytorch
    from onnx_by_torch import compiled

    pytorch.set_num_threads(threads)
    module = compiled(path)

    def call(given):
        with pytorch.inference_mode():
            return [made.numpy() for made in module(*map(pytorch.from_numpy, given.values()))]

    return call


def zeros(*shape):
    """An aligned array."""
    count = int(np.prod(shape))
    whole = np.zeros(4 * count + _ALIGNED, "uint8")
    begin = -whole.ctypes.data % _ALIGNED
    return whole[begin : begin + 4 * count].view("float32").reshape(shape)


def said(prompt, step, words, read):
    """The last scores, and seconds: until the first word is there, and for the others."""
    wall, busy = time.perf_counter(), time.process_time()
    scores, keys, values = prompt({"ids": np.ascontiguousarray(words[:, :read])})
    first, first_busy = time.perf_counter() - wall, time.process_time() - busy
    room = int(ROOM)
    kept_keys = zeros(*keys.shape[:-1], room)
    kept_values = zeros(*values.shape[:-2], room, values.shape[-1])
    kept_keys[..., :read], kept_values[..., :read, :] = keys, values
    mask = np.full((1, 1, 1, room), -1e9, "float32")
    mask[..., :read] = 0
    wall, busy = time.perf_counter(), time.process_time()
    for at in range(read, words.shape[1]):
        scores, key, value = step(
            {
                "ids": np.ascontiguousarray(words[:, at : at + 1]),
                "place": np.array([at]),
                "mask": mask,
                "keys": kept_keys,
                "values": kept_values,
            }
        )
        kept_keys[..., at : at + 1], kept_values[..., at : at + 1, :] = key, value
        mask[..., at] = 0
    return scores, (first, first_busy), (time.perf_counter() - wall, time.process_time() - busy)


def main():
    words = np.load(WORDS)
    read = words.shape[1] // 2
    prompt, step = (globals()[PEER](path, int(THREADS)) for path in (PROMPT, STEP))
    scores, _, _ = said(prompt, step, words, read)
    np.save(SCORES, np.array(scores))
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        while time.perf_counter() - began < _WARM_S:
            prompt({"ids": np.ascontiguousarray(words[:, :read])})
        _, first, others = said(prompt, step, words, read)
        count = words.shape[0] * (words.shape[1] - read)
        rates = {"rate": count / others[0], "cpu_rate": count / others[1]}
        print(json.dumps({"first_ms": 1e3 * first[0], "cpu_first_ms": 1e3 * first[1], **rates}), flush=True)


if __name__ == "__main__":
    main()
