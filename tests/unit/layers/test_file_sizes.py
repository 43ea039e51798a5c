"""Sizes and names of source files: none over 500 lines, no small one that only one other file uses, no two alike."""

from __future__ import annotations

from functools import cache

import grimp

from tests.kit.places import ROOT

PACKAGES = ("compiler", "rpc_server", "tracker", "tuner", "tunefarm", "webui")
MOST = 500
CRUMB = 60
ONE_A_FILE = (
    "compiler/faces/relay/testing/",  # networks
    "compiler/frontend/onnx/converters/", "compiler/frontend/torch/converters/", "compiler/frontend/nn/op/",
    "compiler/lower/", "compiler/tensorcore/", "compiler/relax/transform/", "compiler/relax/analysis/",  # passes
    "compiler/relax/op/", "compiler/topi/",  # operators and their schedules
    "tuner/faces/dlight/", "tuner/records/parts/", "tuner/search/", "tuner/space/",
    "webui/api/", "webui/pages/",
    "tunefarm/",  # modules under Apache TVM's paths
)  # fmt: skip
"""Folders of a table: a pass, an operator family, a page, … is a file of its own, however short."""
APART = {
    "compiler/frontend/onnx/taps.py": "used by a command",
    "compiler/relax/struct_info/signature.py": "block_builder.py is full",
    "compiler/relax/text/kept.py": "the dialect's row in the table of readers",
    "compiler/relax/vm_codegen/work.py": "counts work, writes no code",
    "compiler/runtime/core/device_target.py": "the only file that knows devices and targets",
    "compiler/runtime/cuda/tensor_maps.py": "known without a driver",
    "compiler/te/schedule/scan_stage.py": "scans only",
    "rpc_server/client/disco.py": "loaded for disco only",
    "rpc_server/machine/core_claims.py": "used by a command",
    "tracker/farm_summary.py": "pure: tested without a farm",
    "tuner/build/preload.py": "imported last by the fork server",
    "tuner/engine/promptness.py": "settings of the interpreter, where its importer tunes",
    "tuner/faces/auto_scheduler/task_actions.py": "sets up the package",
    "tuner/faces/kernel_tuner.py": "a row of a table",
}
"""Files that stay small, and why."""


@cache
def sources() -> dict[str, str]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def test_no_file_is_over_500_lines() -> None:
    found = {path: lines for path, text in sources().items() if (lines := text.count("\n")) > MOST}
    assert not found, "give a subject of it a file of its own"


def test_what_is_small_and_used_once_lies_where_it_is_used() -> None:
    imports = grimp.build_graph(*PACKAGES, cache_dir=None)
    crumbs = {
        path
        for path, text in sources().items()
        if text.count("\n") < CRUMB
        and not path.startswith(ONE_A_FILE)
        and not path.endswith(("__init__.py", "__main__.py"))
        and len(imports.find_modules_that_directly_import(path.removesuffix(".py").replace("/", "."))) <= 1
    }
    assert crumbs == APART.keys(), "merge it with its importer, or take it off the list"


def test_no_two_modules_of_a_package_differ_by_an_s() -> None:
    """The base of backends and the folder of them are the exception: programs elsewhere import both."""
    modules = {path.removesuffix(".py").removesuffix("/__init__") for path in sources()}
    assert {name for name in modules if f"{name}s" in modules} == {"compiler/driver/backend"}
