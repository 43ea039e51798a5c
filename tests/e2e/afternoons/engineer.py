"""The kernel engineer: a C kernel of one's own, tuned, looked at, edited: `python -m tests.e2e.afternoons.engineer`."""

import re

from tests.e2e.afternoons.session import Terminal, afternoon

SOURCE = """
void zero(float* c);
void product(const float* a, const float* b, float* c) {
  zero(c);
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < N; k += UNROLL)
      for (int u = 0; u < UNROLL; u++)
        for (int j = 0; j < N; j++) c[i * N + j] += a[i * N + k + u] * b[(k + u) * N + j];
  }
}
"""
KERNELS = """
[run]
sample_ms = 2
samples = 2
max_samples = 2

[[kernel]]
name = "product"
source = ["product.c", "zero.c"]
entry = "product"
compiler = "cc -O3 -march={mcpu} -DN=64"
flops = "2 * 64**3"
args = [
  { name = "a", dtype = "float32", shape = [64, 64] },
  { name = "b", dtype = "float32", shape = [64, 64] },
  { name = "c", dtype = "float32", shape = [64, 64], output = true },
]
reference = { UNROLL = 1 }
[kernel.space]
UNROLL = [1, 2, 4, 8, 16]
[kernel.baseline]
source = "plain.c"
entry = "plain"
compiler = "cc -O1"
"""
ZERO = "void zero(float* c) { for (int i = 0; i < N * N; i++) c[i] = 0; }\n"
PLAIN = """
#include <dlfcn.h>
typedef float fma_of(float, float, float);
void plain(const float* a, const float* b, float* c) {
  static fma_of* fma; /* from a library, as sgemm would be */
  if (!fma) fma = (fma_of*)dlsym(dlopen("libm.so.6", RTLD_NOW), "fmaf");
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 64; j++) {
      float sum = 0;
      for (int k = 0; k < 64; k++) sum = fma(a[i * 64 + k], b[k * 64 + j], sum);
      c[i * 64 + j] = sum;
    }
}
"""


def spend(at: Terminal, trials: int) -> None:
    at.write("product.c", SOURCE)
    at.write("zero.c", ZERO)
    at.write("plain.c", PLAIN)
    at.write("kernels.toml", KERNELS)
    summary = at.type(f"tune kernels.toml --trials {trials} --quiet")
    assert "product" in summary  # whole, not letter by letter
    assert "GFLOP/s" in summary
    values = next(line.strip() for line in at.type("best kernels.toml:product").splitlines() if "UNROLL" in line)
    assert values in at.type("best product")
    shown = at.type("show kernels.toml:product")
    assert f"-D{values.replace(' = ', '=')}" in shown
    assert "void product(const float *a, const float *b, float *c);" in shown
    assert "product" in at.type("runs")
    _edit(at)
    wrong = KERNELS.partition("[kernel.baseline]")[0].replace("N=64", "N=640")  # 100 times as large as its arrays
    at.write("wrong.toml", wrong)
    assert "are their declared shapes" in at.type("tune wrong.toml --trials 1 --quiet", code=1)
    at.type("tune nothing.toml", code=1)


def _edit(at: Terminal) -> None:
    """A schedule that was found, edited by hand, measured beside it, and recorded."""
    at.write("matmul.toml", 'workloads = ["matmul:16,16,16:float32"]\n[run]\nsample_ms = 2\nsamples = 2\n')
    at.type("tune matmul.toml --trials 3 --quiet")
    program = at.type("show matmul:16,16,16:float32 --python")
    found, edited = program.split('    """Change this one."""\n')
    edit = '    sch.annotate(sch.get_block("T_matmul"), "by_hand", 1)\n'
    at.write("edited.py", f"{found}{edit}{edited}\nrun = {{'sample_ms': 2, 'samples': 2}}\n")
    tuned = at.type("tune edited.py --trials 2 --quiet")
    assert re.search(r" 1 +0 *$", tuned, re.MULTILINE), "the edited schedule could not be measured"
    both = at.type("compare 2 3 --json")
    assert '"kernel": "matmul:16,16,16:float32"' in both  # recorded as the workload's own
    assert '"first": null' not in both
    assert '"second": null' not in both
    at.type("best matmul:16,16,16:float32")


if __name__ == "__main__":
    afternoon(spend, 20)
