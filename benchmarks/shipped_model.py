"""Make the model that comes with tunefarm for this machine's target family, from the recorded spaces.

    python benchmarks/record_spaces.py --again      # measure the spaces of benchmarks/data/FAMILY/ anew
    python benchmarks/shipped_model.py              # writes tuner/model/shipped/FAMILY.json.gz, and its README's line

The same spaces make the same file; other families' are left alone. Printed is how models rank the workloads they were
not trained on, beside the analytic draft.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from recorded_spaces import DATA, RecordedSpace, families, put, spaces

from compiler.target.target import Target
from tuner.model import library
from tuner.model.dataset import group_of
from tuner.model.features import NAMES
from tuner.model.machine import target_family
from tuner.model.quality import Quality, rank_quality
from tuner.model.training import Group, TrainingOptions, train

SHIPPED = Path(library.__file__).parent / "shipped"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default=target_family(Target.host()), help="of targets (default: this machine's)")
    parser.add_argument("--data", type=Path, default=DATA, help="where each family has its folder of recorded spaces")
    parser.add_argument("--folder", type=Path, default=SHIPPED)
    parser.add_argument("--trees", type=int, default=80)
    args = parser.parse_args()
    recorded = list(spaces(args.family, args.data, drawn=True))
    if not recorded:
        parser.error(f"no space of {args.family} was recorded; {', '.join(families(args.data)) or 'nothing'} was")
    groups = [group for space in recorded if (group := group_of_space(space)) is not None]
    trained = train(groups, TrainingOptions(trees=args.trees))
    path = args.folder / f"{args.family}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(library.to_file(library.pack(args.family, groups, trained)))
    print(f"{args.family}: {candidates(groups)} candidates, {path.stat().st_size >> 10} KiB in {path}")
    if (page := args.folder / "README.md").exists():
        put(page, args.family, f"{candidates(groups)} candidates of {len(groups)} kernels; {recorded[0].made}")
    columns = f"{'NDCG':>7}{'recall':>8}"
    print(f"{'workload':34}{'draft: spearman':>16}{columns}{'model: spearman':>18}{columns}")
    drafts = {g.workload: rank_quality(g.matrix[:, NAMES.index("draft")], g.costs) for g in groups}
    for workload, draft in drafts.items():
        print(_row(workload, draft, trained.by_workload.get(workload)))
    print(_row("mean", Quality.mean(list(drafts.values())), trained.held_out))


def group_of_space(space: RecordedSpace) -> Group | None:
    """Return what a model learns from a space; None where nothing in it can be described."""
    costs = {candidate.trace_json: cost for candidate, cost in space.candidates if cost is not None}
    return group_of(space.workload, space.task.func, space.task.target, costs)


def candidates(groups: Sequence[Group]) -> int:
    return sum(len(group.costs) for group in groups)


def _row(name: str, draft: Quality, model: Quality | None) -> str:
    row = f"{name:34}{draft.spearman:16.2f}{draft.ndcg:7.2f}{draft.recall:8.2f}"
    return row if model is None else row + f"{model.spearman:18.2f}{model.ndcg:7.2f}{model.recall:8.2f}"


if __name__ == "__main__":
    main()
