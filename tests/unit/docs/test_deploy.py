"""The files under deploy/: the commands in them can be typed, systemd takes the units, and the page names each."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from tests.kit.cli.run import can_be_typed
from tests.kit.docs_pages import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
DROP_INS = sorted(DEPLOY.glob("*.conf"))


@pytest.mark.parametrize("unit", [*UNITS, *DROP_INS], ids=lambda path: path.name)
def test_a_unit_runs_commands_that_can_be_typed(unit) -> None:
    lines = re.findall(r"^Exec\w+=/opt/tunefarm/bin/tunefarm (.*)$", unit.read_text(), re.MULTILINE)
    assert lines
    variables = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "server.env").read_text(), re.MULTILINE))
    for line in lines:
        filled = re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], line)
        can_be_typed(shlex.split(filled))


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_a_unit(unit, tmp_path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here")
    command = tmp_path / "tunefarm"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/tunefarm/bin/tunefarm", str(command)))
    done = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60)
    assert not [line for line in done.stderr.splitlines() if unit.name in line], done.stderr


@pytest.mark.parametrize("workflow", sorted((DEPLOY / "ci").glob("*.yml")), ids=lambda path: path.name)
def test_the_commands_of_a_workflow_can_be_typed(workflow) -> None:
    text = workflow.read_text()
    commands = re.findall(r"tunefarm (build kernels[^)>\n]*)", text)
    made = re.findall(r"tunefarm (token new .*)$", text, re.MULTILINE)
    assert (len(commands), len(made)) == (2, 1)  # one prints the cache's key
    assert all("$RELEASE" in line for line in commands)
    for line in commands + made:
        can_be_typed(shlex.split(line.replace("$TARGET", "llvm").replace("$RELEASE", "2026.11")))
    assert "TUNEFARM_API_TOKEN" in text


def test_the_containers_run_commands_that_can_be_typed() -> None:
    text = (DEPLOY / "kubernetes" / "tunefarm.yaml").read_text()
    found = re.findall(r"^\s+args: \[(.*)\]$", text, re.MULTILINE)
    assert len(found) == 2
    for line in found:
        can_be_typed([word.strip().strip('"').replace("$(NODE)", "node1") for word in line.split(",")])


def test_the_kubernetes_file_is_yaml_with_the_kinds_the_page_names() -> None:
    text = (DEPLOY / "kubernetes" / "tunefarm.yaml").read_text()
    assert re.findall(r"^kind: (\w+)$", text, re.MULTILINE) == ["Service", "Deployment", "DaemonSet"]
    assert "\t" not in text
    yaml = pytest.importorskip("yaml")
    documents = list(yaml.safe_load_all(text))
    assert [d["kind"] for d in documents] == ["Service", "Deployment", "DaemonSet"]


def test_the_page_names_every_file() -> None:
    page = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.name != "README.md":
            assert f"`{path.relative_to(DEPLOY)}`" in page or path.name == "server.env", path.name
