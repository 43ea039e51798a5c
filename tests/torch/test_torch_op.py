"""A family's kernel as an operator of torch: values, shapes, `torch.compile` with sizes that change."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from compiler.errors import ArgumentError
from compiler.target.target import Target
from tests.kit.tuner.family_records import made_up
from tunefarm.contrib.torch_op import torch_op
from tunefarm.family_kernel import FamilyKernel, _Cache
from tuner.devices.supplies import local_target
from tuner.kernels.family_build import maker_of


def test_an_operator(tmp_path: Path) -> None:
    record = made_up("dense:M,48,32", ["M=1,4,17"])
    maker, target = maker_of("dense:M,48,32"), Target(local_target())
    kernel = FamilyKernel(maker, lambda *_: record.to_json(), target, _Cache(tmp_path))
    dense = torch_op(kernel, "tunefarm_tests::dense")
    weight = torch.rand(48, 32)
    for rows in (1, 3, 17, 40):
        x = torch.rand(rows, 32)
        torch.testing.assert_close(dense(x, weight), x @ weight.T)
    x = torch.rand(32, 9).T  # not contiguous
    torch.testing.assert_close(dense(x, weight), x @ weight.T)
    torch.library.opcheck(torch.ops.tunefarm_tests.dense, (torch.rand(5, 32), weight))
    compiled = torch.compile(lambda x: torch.relu(dense(x, weight)), backend="aot_eager", dynamic=True)
    for rows in (2, 7, 19):
        x = torch.rand(rows, 32)
        torch.testing.assert_close(compiled(x), torch.relu(x @ weight.T))
    with pytest.raises(ArgumentError, match="torch takes no operator"):
        torch_op(kernel, "no-name")
