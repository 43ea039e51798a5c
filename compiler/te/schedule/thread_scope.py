"""Which memory a stage's result lives in when nobody said: what the threads around it share."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.te.schedule.relations import AttachType
from compiler.te.schedule.stage import Stage


def memory_scope(stage: Stage) -> str:
    """The stage's own scope; else "local" in a loop over threads, "shared" in one over blocks, "global" elsewhere."""
    if stage.scope:
        return stage.scope
    tags = list(_threads_around(stage))
    if any(tag.startswith(("threadIdx", "vthread")) for tag in tags):
        return "local"
    return "shared" if tags else "global"


def _threads_around(stage: Stage) -> Iterator[str]:
    """The thread axes of the loops that the stage is computed in, those of the stages around it too."""
    where = stage.attachment()
    while where.attach_type is AttachType.SCOPE and where.attach_stage is not None:
        parent, axis = where.attach_stage, where.attach_ivar
        leaves = list(parent.leaves)
        held = leaves[: next((i + 1 for i, leaf in enumerate(leaves) if leaf is axis), 0)]
        for leaf in held:
            attr = parent.iter_var_attrs.get(leaf)
            if attr is not None and attr.bind_thread is not None:
                yield attr.bind_thread.thread_tag
        where = parent.attachment()
