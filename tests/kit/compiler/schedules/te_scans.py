"""te schedules of recurrences with the same computation in numpy. Importing this module adds them to
`te_schedules.CASES`."""

import numpy as np

from compiler.te import operation as te
from compiler.te.scan import scan
from compiler.te.schedule.schedule import create_schedule
from compiler.te.tensor import Tensor
from tests.kit.compiler.schedules.te import Made, case


def running_sums(rows: int = 9, columns: int = 13) -> dict[str, Tensor]:
    x, state = (te.placeholder((rows, columns), name=name) for name in ("X", "state"))
    init = te.compute((1, columns), lambda t, i: x[0, i], name="init")
    update = te.compute((rows, columns), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    result = scan(init, update, state, inputs=[x], name="sums")
    return {"x": x, "init": init, "update": update, "sums": result}


def _sums(x: np.ndarray) -> np.ndarray:
    return x.cumsum(axis=0)


@case
def scan_as_written() -> Made:
    made = running_sums()
    return create_schedule(made["sums"].op), [made["x"], made["sums"]], _sums


@case
def scan_with_its_update_split_and_vectorized() -> Made:
    made = running_sums()
    s = create_schedule(made["sums"].op)
    _, inner = s[made["update"]].split(made["update"].op.axis[1], factor=4)
    s[made["update"]].vectorize(inner)
    s[made["init"]].parallel(made["init"].op.axis[1])
    return s, [made["x"], made["sums"]], _sums


@case
def scan_of_two_states() -> Made:
    """The numbers of Fibonacci with a twist, two rows to begin with."""
    x, a, b = (te.placeholder((8, 5), name=name) for name in ("X", "a", "b"))
    first_a = te.compute((2, 5), lambda t, i: x[t, i], name="first_a")
    first_b = te.compute((2, 5), lambda t, i: x[t, i] * 2.0, name="first_b")
    step_a = te.compute((8, 5), lambda t, i: a[t - 2, i] + b[t - 1, i] * 0.5, name="step_a")
    step_b = te.compute((8, 5), lambda t, i: b[t - 1, 4 - i] - a[t - 1, i] + x[t, i], name="step_b")
    both = scan([first_a, first_b], [step_a, step_b], [a, b], inputs=[x], name="both")

    def reference(given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, q = given.copy(), given * 2
        for t in range(2, 8):
            p[t] = p[t - 2] + q[t - 1] * np.float32(0.5)
            q[t] = q[t - 1, ::-1] - p[t - 1] + given[t]
        return p, q

    s = create_schedule([tensor.op for tensor in both])
    s[step_b].parallel(step_b.op.axis[1])
    return s, [x, *both], reference


@case
def scan_of_a_recurrent_cell() -> Made:
    """A reduction over the row before, what it needs computed where it is needed, and its result read afterwards."""
    rows, width = 6, 7
    x, state = (te.placeholder((rows, width), name=name) for name in ("X", "state"))
    weights = te.placeholder((width, width), name="W")
    k = te.reduce_axis((0, width), name="k")
    halved = te.compute((width, width), lambda i, j: weights[i, j] * 0.25, name="halved")
    init = te.compute((1, width), lambda t, i: x[0, i], name="init")
    product = te.compute((rows, width), lambda t, i: te.sum(state[t - 1, k] * halved[i, k], axis=k), name="product")
    update = te.compute((rows, width), lambda t, i: product[t, i] + x[t, i], name="update")
    cell = scan(init, update, state, inputs=[x, halved], name="cell")
    out = te.compute((rows, width), lambda t, i: cell[t, i] + 1.0, name="out")
    s = create_schedule(out.op)
    outer, inner = s[update].split(update.op.axis[1], factor=4)
    s[product].compute_at(s[update], outer)
    s[update].vectorize(inner)
    s[halved].compute_at(s[cell], cell.op.scan_axis)

    def reference(given: np.ndarray, w: np.ndarray) -> np.ndarray:
        found = given.copy()
        for t in range(1, rows):
            found[t] = w @ found[t - 1] * np.float32(0.25) + given[t]
        return found + 1

    return s, [x, weights, out], reference
