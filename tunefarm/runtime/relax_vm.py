"""The virtual machine that runs graphs."""

from compiler.runtime.vm.machine import VirtualMachine, VMExecutable, VMInstrumentReturnKind

__all__ = ["VMExecutable", "VMInstrumentReturnKind", "VirtualMachine"]
