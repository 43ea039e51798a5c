"""The kernel engineer: a C kernel of one's own, tuned, looked at, edited: `python -m tests.e2e.afternoons.engineer`."""

from tests.e2e.afternoons.session import Terminal, afternoon

SOURCE = """
void product(const float* a, const float* b, float* c) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) c[i * N + j] = 0;
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
source = "product.c"
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
"""


def spend(at: Terminal, trials: int) -> None:
    at.write("product.c", SOURCE)
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
    wrong = KERNELS.replace("N=64", "N=640")  # 100 times as large as its arrays
    at.write("wrong.toml", wrong)
    assert "are their declared shapes" in at.type("tune wrong.toml --trials 1 --quiet", code=1)
    at.type("tune nothing.toml", code=1)


if __name__ == "__main__":
    afternoon(spend, 20)
