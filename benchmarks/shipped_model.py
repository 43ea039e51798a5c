"""Make the model that comes with tunefarm for this machine's target family, from the recorded spaces.

    python benchmarks/record_spaces.py --again      # measure the spaces of benchmarks/data/ anew
    python benchmarks/shipped_model.py              # writes tuner/model/shipped/FAMILY.json.gz

The same spaces make the same file. Printed is how models rank the workloads they were not trained on, beside the
analytic draft.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recorded_spaces import DATA, spaces

from compiler.target import Target
from tuner.model import library
from tuner.model.dataset import group_of
from tuner.model.features import NAMES
from tuner.model.machine import target_family
from tuner.model.quality import Quality, rank_quality
from tuner.model.training import Group, TrainingOptions, train

SHIPPED = Path(library.__file__).parent / "shipped"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--folder", type=Path, default=SHIPPED)
    parser.add_argument("--trees", type=int, default=80)
    args = parser.parse_args()
    groups: dict[str, list[Group]] = {}
    for space in spaces(args.data, drawn=True):
        costs = {candidate.trace_json: cost for candidate, cost in space.candidates if cost is not None}
        group = group_of(space.workload, space.task.func, space.task.target, costs)
        if group is not None:
            groups.setdefault(target_family(Target(space.target)), []).append(group)
    for family, of in groups.items():
        trained = train(of, TrainingOptions(trees=args.trees))
        path = args.folder / f"{family}.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(library.to_file(library.pack(family, of, trained)))
        print(f"{family}: {sum(len(g.costs) for g in of)} candidates, {path.stat().st_size >> 10} KiB in {path}")
        columns = f"{'NDCG':>7}{'recall':>8}"
        print(f"{'workload':34}{'draft: spearman':>16}{columns}{'model: spearman':>18}{columns}")
        drafts = {g.workload: rank_quality(g.matrix[:, NAMES.index("draft")], g.costs) for g in of}
        for workload, draft in drafts.items():
            print(_row(workload, draft, trained.by_workload.get(workload)))
        print(_row("mean", Quality.mean(list(drafts.values())), trained.held_out))


def _row(name: str, draft: Quality, model: Quality | None) -> str:
    row = f"{name:34}{draft.spearman:16.2f}{draft.ndcg:7.2f}{draft.recall:8.2f}"
    return row if model is None else row + f"{model.spearman:18.2f}{model.ndcg:7.2f}{model.recall:8.2f}"


if __name__ == "__main__":
    main()
