"""Models by name, and what is said where the package that reads them is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.errors import ArgumentError
from compiler.frontend import model_files
from compiler.frontend.model_files import is_model_file, is_named_model, read_model_file
from tuner.kernels.jobs import names_model, read_job


def test_names_of_models() -> None:
    assert is_named_model("torchvision:resnet18")
    assert is_named_model("torchvision:resnet18@DEFAULT")
    assert not is_named_model("torchvision:../resnet18")
    assert not is_named_model("torchvision:resnet18:x")
    assert is_model_file("torchvision:resnet18")
    assert names_model("torchvision:resnet18")
    assert not is_model_file("torch.toml")


@pytest.mark.parametrize("name", ["torchvision:resnet18", "net.pt2", "net.onnx"])
def test_what_is_not_installed_is_named_with_the_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files.importlib.util, "find_spec", lambda _: None)
    (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    for read in (read_model_file, lambda text: read_job([text])):
        with pytest.raises(ArgumentError, match="which is not installed") as caught:
            read(name)
        assert caught.value.hint in ("pip install 'tunefarm[torch]'", "pip install 'tunefarm[onnx]'")
