"""Drawing from distributions that tensors hold."""

from __future__ import annotations

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo
from compiler.relax.nodes.dims import int64
from compiler.relax.op.core.families import NOT_SMOOTH
from compiler.relax.op.core.layout import as_written
from compiler.relax.op.core.params import Dtype, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import check_kind, tensor
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_input

__all__ = ["multinomial_from_uniform"]


def _multinomial_info(use: Use) -> StructInfo:
    names = ("prob", "uniform_sample", "sample_indices")
    _, numbers, which = (use.tensor(name, 2) for name in names)
    use.check_float("prob", "uniform_sample")
    check_kind(use, ("sample_indices",), floats=False, integers=True, bools=False)
    for name, info in (("uniform_sample", numbers), ("sample_indices", which)):
        if info.dims is not None:
            use.check_equal(f"1 and the width of {name}", int64(1), info.dims[1], name)
    if numbers.dims is not None and which.dims is not None:
        what = "the numbers and the rows that they draw from"
        use.check_equal(what, numbers.dims[0], which.dims[0], "uniform_sample", "sample_indices")
    known = numbers.dims or which.dims
    return tensor(None if known is None else [known[0], int64(1)], use.call.attrs["dtype"], 2, use.vdevice(*names))


@operator(
    "relax.multinomial_from_uniform", infer=_multinomial_info, te=topi.multinomial_from_uniform,
    pattern=OpPatternKind.OPAQUE, flops=per_input(2), layout=as_written, gradient=NOT_SMOOTH, precision="never",
)  # fmt: skip
def multinomial_from_uniform(
    prob: TensorArg, uniform_sample: TensorArg, sample_indices: TensorArg, dtype: Dtype = "int64"
) -> Expr:
    """Draw an entry of a row of `prob` for each number of `uniform_sample`.

    Number i, from 0 to below 1, draws from row `sample_indices[i, 0]`: the first entry up to which probabilities sum
    to more than the number. Both are (numbers, 1), and so is the result.
    """
