"""Devices by name and number, and what they say."""

import tvm

print(tvm.cpu(0) == tvm.device("cpu", 0), tvm.device("cpu") == tvm.cpu(), tvm.cpu(1) == tvm.cpu(0))
print(tvm.cpu(2).device_id, str(tvm.cpu(0)), repr(tvm.cpu(1)))
for name in ("cuda", "opencl", "vulkan", "metal", "rocm", "hexagon", "webgpu", "ext_dev"):
    dev = tvm.device(name, 1)
    print(name, dev.device_id, str(dev), dev == tvm.cpu(1))
print(tvm.device("cl", 0).device_type == tvm.opencl().device_type, tvm.device("nvptx").device_type == tvm.cuda().device_type)
print(tvm.cpu(0).exist, tvm.cpu().max_threads_per_block, tvm.cpu().warp_size)
print(hash(tvm.cpu(0)) == hash(tvm.cpu(0)), len({tvm.cpu(0), tvm.cpu(0), tvm.cpu(1)}))
for wrong in ("no_such_device", "cpuu"):
    try:
        tvm.device(wrong)
        print("no error")
    except ValueError:
        print("refused")
tvm.cpu(0).sync()
print(tvm.runtime.num_threads() >= 1)
