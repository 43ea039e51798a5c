"""Python text made of documents."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tunefarm.script.printer import doc, doc_printer

__all__ = ["doc", "doc_printer"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
