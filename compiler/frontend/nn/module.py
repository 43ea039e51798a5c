"""Modules: parameters and other modules by name, and methods that compute with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compiler.frontend.nn.effects import Effect
from compiler.frontend.nn.jit import JitModule, export_tvm, jit
from compiler.frontend.nn.values import Parameter
from compiler.runtime.core.device import Device


class Module:
    """A part of a model. Subclasses make parameters and modules in `__init__`, and compute in `forward`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result. Subclasses say how."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # ------------------------------------------------------------------------------- building

    def export_tvm(self, spec: Any, debug: bool = False, allow_extern: bool = False) -> tuple[Any, ...]:
        """Make a graph module of the methods that `spec` names: the module, and the parameters by name.

        A function takes the method's arguments, then the effects, then the parameters. With effects it returns the
        result and the effects' new states; "_initialize_effect" makes the first ones. `debug` adds the order of
        printing as an effect. With `allow_extern` an empty list of external modules comes third.
        """
        return export_tvm(self, spec, debug, allow_extern)

    def jit(
        self, spec: Any, device: str | Device = "cpu", pipeline: Any = "default_build", out_format: str = "torch",
        debug: bool = False,
    ) -> JitModule:  # fmt: skip
        """Build the methods that `spec` names for a device: `module.jit(spec)["forward"](x)` calls one.

        `out_format`: results are "torch" tensors that share their memory, "numpy" arrays or "tvm" arrays.
        """
        return jit(self, spec, device, pipeline, out_format, debug)

    # ----------------------------------------------------------------------------- parameters

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and of those in it, with their dotted names."""
        yield from _attributes(prefix, self, Parameter)

    def parameters(self) -> Iterator[Parameter]:
        """The parameters, as `named_parameters` has them."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_effects(self, prefix: str = "") -> Iterator[tuple[str, Effect]]:
        """The effects of this module and of those in it, with their dotted names."""
        yield from _attributes(prefix, self, Effect)

    def state_dict(self, *, prefix: str = "", destination: dict[str, Parameter] | None = None) -> dict[str, Parameter]:
        """The parameters by name."""
        found = {} if destination is None else destination
        found.update(self.named_parameters(prefix))
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Give parameters values by name. Returns the names that are missing and those that nobody knows.

        Values are parameters or arrays, also torch's. Raises KeyError for either kind of name if `strict`.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and (missing or unexpected):
            raise KeyError(f"missing: {', '.join(missing) or 'none'}; unexpected: {', '.join(unexpected) or 'none'}")
        for name, value in state_dict.items():
            if name in own:
                own[name].data = value.data if isinstance(value, Parameter) else value
        return missing, unexpected

    def to(self, dtype: str | None = None) -> None:
        """Change the element type of all parameters and effects.
        Raises ArgumentError if one has a value already."""
        for _, parameter in self.named_parameters():
            parameter.to(dtype)
        for _, effect in self.named_effects():
            if dtype is not None:
                effect.to(dtype)


class ModuleList(Module):
    """Modules in a row, each a part of this one."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __getitem__(self, index: int) -> Module:
        return self.modules[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.modules[index] = module

    def __len__(self) -> int:
        return len(self.modules)

    def append(self, module: Module) -> None:
        """Add a module at the end."""
        self.modules.append(module)

    def forward(self, x: Any) -> Any:
        """Apply the modules one after the other."""
        for module in self.modules:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by name, each a part of this one."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.modules = dict(modules or {})

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def __getitem__(self, key: str) -> Module:
        return self.modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.modules[key] = module

    def __len__(self) -> int:
        return len(self.modules)

    def keys(self) -> Iterator[str]:
        return iter(self.modules)

    def values(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def items(self) -> Iterator[tuple[str, Module]]:
        return iter(self.modules.items())


def _children(module: Module) -> Iterator[tuple[str, Any]]:
    if isinstance(module, ModuleList):
        yield from ((str(index), item) for index, item in enumerate(module.modules))
    elif isinstance(module, ModuleDict):
        yield from module.modules.items()
    else:
        yield from vars(module).items()


def _attributes(prefix: str, module: Module, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The attributes of `kind` of a module and those in it, depth first, in the order of their definition."""
    for name, item in _children(module):
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(item, kind):
            yield path, item
        elif isinstance(item, Module):
            yield from _attributes(path, item, kind)
