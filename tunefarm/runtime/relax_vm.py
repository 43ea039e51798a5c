"""The virtual machine that runs graphs."""

from compiler.runtime.vm.machine import VirtualMachine, VMInstrumentReturnKind

__all__ = ["VMInstrumentReturnKind", "VirtualMachine"]
