"""Make shared libraries with the C compiler: `module.export_library("f.so", fcompile=cc.create_shared)`."""

from compiler.runtime.files.linker import LinkError, create_shared, get_cc

__all__ = ["LinkError", "create_shared", "get_cc"]
