"""Objects packed into tar files: `module.export_library("f.tar", fcompile=tar.tar)`."""

from compiler.runtime.files.linker import create_tar as tar

__all__ = ["tar"]
