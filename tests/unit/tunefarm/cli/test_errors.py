"""Mistyped commands get a message, a hint and an exit status, and no traceback."""

from __future__ import annotations

import errno
import http.server
import re
import sqlite3
import subprocess
import sys
import threading
from types import SimpleNamespace

import click
import pytest

from tests.kit.cli.run import run_cli
from tunefarm.cli.commands import COMMANDS
from tuner.records.db.migrate import upgrade


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TUNEFARM_DB", "TUNEFARM_TRACKER", "TUNEFARM_API", "TUNEFARM_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def refused(capfd, *args, code=1):
    """The error text of a command that must fail with `code`."""
    outcome = run_cli(capfd, *args)
    assert outcome.code == code, outcome.text
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert "\x1b[" not in outcome.err  # no colours where there is no terminal
    return outcome.err


# ------------------------------------------------------------------------------- workloads, targets, flags


@pytest.mark.parametrize("command", ["tune", "best", "build"])
def test_an_unknown_workload_lists_the_known_ones(capfd, command):
    text = refused(capfd, command, "matmull:8,8,8")
    assert "no workload is called 'matmull:8,8,8'" in text
    assert "hint: a workload is one of" in text
    assert "conv2d:N,C,H,W,K,R,S" in text


def test_sizes_that_do_not_fit_the_operator(capfd):
    assert "matmul takes 3 sizes, got 2" in refused(capfd, "tune", "matmul:8,8")
    assert "has no sizes to be tuned for" in refused(capfd, "tune", "matmul:8,8,x")
    assert "must be positive" in refused(capfd, "tune", "matmul:8,0,8")


def test_an_unknown_dtype(capfd):
    assert "float33" in refused(capfd, "tune", "matmul:8,8,8:float33")


@pytest.mark.parametrize("command", ["tune", "best", "build"])
def test_an_unknown_target_lists_the_known_kinds(capfd, command):
    text = refused(capfd, command, "matmul:8,8,8", "--target", "quantum")
    assert "kind 'quantum' is unknown" in text
    assert "hint: known: c, composite, cuda" in text
    assert " llvm," in text


@pytest.mark.parametrize("command", ["tune", "best", "build"])
def test_a_cpu_that_llvm_does_not_know(capfd, command):
    target = "llvm -mcpu=znver33 -mtriple=x86_64-linux-gnu"
    text = refused(capfd, command, "matmul:8,8,8", "--target", target)
    assert "LLVM knows no CPU 'znver33'" in text
    assert "hint: did you mean znver" in text


def test_an_unknown_target_option(capfd):
    assert "no option 'mcpuu'" in refused(capfd, "tune", "matmul:8,8,8", "--target", "llvm -mcpuu=znver3")


@pytest.mark.parametrize("bad", ["nowhere", "host:", ":9190", "host:port", "host:0", "host:70000"])
def test_a_bad_address_names_the_option(capfd, bad):
    text = refused(capfd, "tune", "matmul:8,8,8", "--device", bad, code=2)
    assert "--device" in text
    assert "is not HOST:PORT, for example 127.0.0.1:9190" in text


def test_nothing_was_made_by_commands_that_were_refused(capfd, tmp_path):
    refused(capfd, "tune", "matmull:8,8,8")
    refused(capfd, "tune", "matmul:8,8,8", "--target", "quantum")
    refused(capfd, "tune", "matmul:8,8,8", "--device", "nowhere", code=2)
    refused(capfd, "tune", "matmul:8,8,8", "--key", "cpu >", "--tracker", "127.0.0.1:1")
    assert list(tmp_path.iterdir()) == []


def test_tune_wants_workloads_or_a_run(capfd):
    assert "give workloads to tune" in refused(capfd, "tune", code=2)
    assert "has its workloads already" in refused(capfd, "tune", "matmul:8,8,8", "--resume", "1", code=2)
    assert "a resumed run keeps its seed" in refused(capfd, "tune", "--resume", "1", "--seed", "3", code=2)


def test_servers_and_a_tracker_are_one_or_the_other(capfd):
    text = refused(capfd, "tune", "matmul:8,8,8", "--device", "127.0.0.1:9091", "--key", "cpu", code=2)
    assert "give one or the other" in text


def test_a_capability_expression_that_does_not_parse(capfd):
    text = refused(capfd, "tune", "matmul:8,8,8", "--key", "cpu memory>=lots")
    assert "'memory>=lots' at column 5" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--cores", "0,x"), "is not a list of cores"),
        (("--cores", "9999"), "there is no core 9999 that this process may use"),
        (("--memory-limit", "much"), "is not a size, for example 8GiB"),
        (("--port", "65536"), "65536"),
        (("--tracker", "here"), "is not HOST:PORT"),
    ],
)
def test_bad_server_flags(capfd, args, message):
    assert message in refused(capfd, "server", *args, code=2)


def test_a_server_that_others_could_reach_is_refused(capfd):
    for command in ("server", "tracker"):
        text = refused(capfd, command, "--host", "0.0.0.0", "--port", "0")
        assert "refusing to listen on 0.0.0.0" in text
        assert "--insecure" in text


@pytest.mark.parametrize(
    "args",
    [("demo", "--trials"), ("server", "--port"), ("web", "--port"), ("bench", "list", "--limit"), ("runs", "--limit")],
    ids=lambda args: args[0],
)
def test_a_number_that_is_none(capfd, args):
    assert "'many' is not a valid integer." in refused(capfd, *args, "many", code=2)


def test_a_folder_that_cannot_be_made(capfd):
    text = refused(capfd, "demo", "--folder", "/dev/null/demo")
    assert "cannot make the folder /dev/null/demo: Not a directory" in text
    assert "hint: give another one" in text


def test_a_kernels_file_that_is_not_there(capfd):
    text = refused(capfd, "tune", "nothere.py")
    assert "there is no file nothere.py" in text
    assert "hint: give the path of a kernel's file, or a workload by name" in text


def test_a_file_of_another_kind_for_a_model(capfd, tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    text = refused(capfd, "cost-model", "import", "notes.txt")
    assert "notes.txt: not a file of a model" in text
    assert "hint: such files are made by `tunefarm cost-model export`" in text


def test_an_unknown_command_and_an_unknown_flag(capfd):
    assert "No such command 'tunee'" in refused(capfd, "tunee", code=2)
    assert "No such option" in refused(capfd, "tune", "--nope", code=2)


def test_a_bad_setting_names_its_source(capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("TUNEFARM_INSECURE", "perhaps")
    assert "TUNEFARM_INSECURE" in refused(capfd, "runs")
    monkeypatch.delenv("TUNEFARM_INSECURE")
    (tmp_path / "tunefarm.toml").write_text("databse = 'x.db'\n")
    assert "no setting is called 'databse'" in refused(capfd, "runs")


# -------------------------------------------------------------------------------------- the record store


def test_what_is_not_in_the_store_and_where_a_copy_cannot_go(capfd, tmp_path):
    upgrade(tmp_path / "tunefarm.db")
    text = refused(capfd, "bench", "report", "99")
    assert "there is no benchmark run 99\n  hint: list them with `tunefarm bench list`" in text
    text = refused(capfd, "db", "backup", "nowhere/copy.db")
    assert "the folder nowhere does not exist\n  hint: create it first" in text


@pytest.mark.parametrize(
    "args", [("runs",), ("best", "matmul:8,8,8"), ("tune", "--resume", "7"), ("db", "check")], ids=lambda args: args[0]
)
def test_a_missing_database_says_how_to_make_it(capfd, args, tmp_path):
    text = refused(capfd, *args)
    assert f"there is no database at {tmp_path / 'tunefarm.db'}" in text
    assert "hint: make it with `tunefarm db upgrade --db" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "args", [("runs",), ("best", "matmul:8,8,8"), ("web", "--port", "0"), ("tune", "matmul:8,8,8")], ids=lambda a: a[0]
)
def test_a_database_of_a_later_version(capfd, args, tmp_path):
    upgrade(tmp_path / "tunefarm.db")
    with sqlite3.connect(tmp_path / "tunefarm.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    text = refused(capfd, *args)
    assert "has schema 9999, which this tunefarm does not know" in text
    assert "hint: upgrade tunefarm" in text


def test_another_programs_database(capfd, tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE recipes (id INTEGER)")
    for args in (("runs",), ("db", "upgrade"), ("tune", "matmul:8,8,8")):
        assert "holds another program's tables" in refused(capfd, *args, "--db", "other.db")


def test_a_file_that_is_no_database(capfd, tmp_path):
    (tmp_path / "text.db").write_text("not a database at all, however long it may be " * 40)
    assert "text.db" in refused(capfd, "runs", "--db", "text.db")


def test_an_unknown_run(capfd, tmp_path):
    upgrade(tmp_path / "tunefarm.db")
    assert "7" in refused(capfd, "tune", "--resume", "7")


def test_a_miss_has_its_own_status(capfd, tmp_path):
    upgrade(tmp_path / "tunefarm.db")
    outcome = run_cli(capfd, "best", "matmul:8,8,8")
    assert outcome.code == 3
    assert "matmul:8,8,8:float32: miss" in outcome.out
    assert re.search(r"^  record store  .*tunefarm\.db$", outcome.out, re.MULTILINE)
    assert outcome.out.endswith("tune it: tunefarm tune matmul:8,8,8:float32\n")


# ------------------------------------------------------------------------------------------ other processes


def test_a_tracker_that_is_not_there(capfd):
    for args in (("devices",), ("tune", "matmul:8,8,8", "--key", "cpu")):
        text = refused(capfd, *args, "--tracker", "127.0.0.1:1")
        assert "cannot reach a tunefarm tracker at 127.0.0.1:1" in text
        assert "tunefarm tracker" in text


def test_a_server_that_is_not_there(capfd):
    text = refused(capfd, "tune", "matmul:8,8,8", "--device", "127.0.0.1:1")
    assert "cannot reach a tunefarm server at 127.0.0.1:1" in text


def test_a_web_app_that_is_not_there(capfd):
    text = refused(capfd, "build", "matmul:8,8,8", "--api", "http://127.0.0.1:1")
    assert "no answer from http://127.0.0.1:1" in text
    assert "hint: is the web app running?" in text


@pytest.mark.parametrize("bad", ["127.0.0.1:9180", "nonsense", "ftp://127.0.0.1", "http://[::1", ""])
def test_an_api_address_that_is_none(capfd, bad, monkeypatch):
    monkeypatch.setenv("TUNEFARM_API", bad)
    assert "address of a web app" in refused(capfd, "build", "matmul:8,8,8")


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<html>a wiki</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_an_api_address_that_is_another_program(capfd):
    with http.server.HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            text = refused(capfd, "build", "matmul:8,8,8", "--api", f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert "something that is not a JSON object" in text
    assert "does the address belong to a tunefarm web app?" in text


def test_a_token_file_that_is_missing_or_empty(capfd, tmp_path):
    upgrade(tmp_path / "tunefarm.db")
    assert "cannot read the tokens" in refused(capfd, "web", "--port", "0", "--token-file", "tokens")
    (tmp_path / "tokens").write_text("# none yet\n\n")
    assert "holds no token" in refused(capfd, "web", "--port", "0", "--token-file", "tokens")


# ------------------------------------------------------------------------------- ends that click would hide


def broken(error):
    def callback():
        raise error

    return SimpleNamespace(summary="", load=lambda: click.Command("keys", callback=callback))


@pytest.mark.parametrize("error", [BrokenPipeError(errno.EPIPE, "Broken pipe"), EOFError("nothing came")])
def test_a_pipe_or_a_peer_that_ends_is_told(capfd, monkeypatch, error):
    """Neither ends the command without a word, nor as if somebody had stopped it."""
    monkeypatch.setitem(COMMANDS, "keys", broken(error))
    assert f"{type(error).__name__}: {error}" in refused(capfd, "keys")


@pytest.mark.parametrize("args", [["--help"], ["tune", "--help"]])
def test_a_reader_that_has_seen_enough(args):
    with subprocess.Popen(
        [sys.executable, "-m", "tunefarm", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141
