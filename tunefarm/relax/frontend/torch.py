"""Models of PyTorch; importing this needs torch (`pip install 'tunefarm[torch]'`)."""

from compiler.frontend.params import detach_params
from compiler.frontend.torch.exported import from_exported_program
from compiler.frontend.torch.fx import from_fx

__all__ = ["detach_params", "from_exported_program", "from_fx"]
