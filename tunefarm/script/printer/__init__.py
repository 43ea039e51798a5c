"""Python text made of documents."""

from tunefarm.compatibility import refuse_other_names
from tunefarm.script.printer import doc, doc_printer

__all__ = ["doc", "doc_printer"]

refuse_other_names(__name__)
