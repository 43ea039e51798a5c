"""Temporary folders, workers in processes and results kept on disk."""

import os

import tvm
from tvm.contrib import popen_pool, utils

folder = utils.tempdir()
path = folder.relpath("a.txt")
with open(path, "w") as file:
    file.write("kept")
print(folder.listdir(), os.path.exists(path), os.path.basename(path))
folder.remove()
print(os.path.exists(path))

pool = popen_pool.PopenPoolExecutor(max_workers=2, timeout=30)
futures = [pool.submit(abs, -i) for i in range(4)]
print([future.result() for future in futures])
print([result.value for result in pool.map_with_error_catching(abs, [-1, 2, -3])])
failed = list(pool.map_with_error_catching(int, ["12", "x"]))
print([result.status.name for result in failed], type(failed[1].value).__name__)

worker = popen_pool.PopenWorker()
worker.send(max, [3, 9, 4])
print(worker.recv(), worker.is_alive())
worker.kill()
print(worker.is_alive())
print(issubclass(tvm.error.RPCError, tvm.error.TVMError))
