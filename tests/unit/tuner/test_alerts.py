"""Alert rules: what they say, when they hold, and that they are told once and to nobody else."""

from __future__ import annotations

import json
import logging
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from compiler.errors import TunefarmError
from tests.kit.cli.run import run_cli
from tuner.alerts.conditions import Alert, AlertFacts, DeviceSeen, Slower, holding, news
from tuner.alerts.deliver import DeliveryError, deliver
from tuner.alerts.rules import Delivery, Rule, RulesError, When, parse_rules
from tuner.alerts.watch import Watch
from tuner.webhook import WebhookError

RULES = (
    Rule("gone", When.BOX_GONE, match="box*", for_s=60),
    Rule("slow", When.KERNEL_SLOWER, factor=1.1),
    Rule("queue", When.QUEUE_WAIT, longer_than_s=600),
    Rule("disk", When.DISK_FULL, path="/data", free_below=0.1),
)
BAD = AlertFacts(
    devices=(DeviceSeen("box1/0", "gone", 61), DeviceSeen("box2/0", "ready", 1), DeviceSeen("other/0", "gone", 99)),
    slower=(Slower("matmul:8,8,8", "box2/0", 1.2), Slower("copy:8", "box2/0", 1.06)),
    waits={"cpu": 601.0, "gpu": 5.0},
    free={"/data": 0.05, "/": 0.01},
)


def test_each_rule_holds_for_what_it_is_for() -> None:
    assert set(holding(RULES, BAD)) == {
        ("gone", "box1/0"), ("slow", "matmul:8,8,8 on box2/0"), ("queue", "cpu"), ("disk", "/data"),
    }  # fmt: skip
    texts = {alert.text for alert in holding(RULES, BAD).values()}
    assert "matmul:8,8,8 on box2/0 takes 1.20 times as long as usual" in texts
    assert "5.0 % of the disk of /data is free" in texts


def test_what_cannot_be_looked_at_goes_on() -> None:
    before = holding(RULES, BAD)
    away = holding(RULES, AlertFacts(devices=None, waits=None, slower=(), free={}), before.values())
    assert {alert.when for alert in away.values()} == {When.BOX_GONE, When.QUEUE_WAIT}
    assert [(a.when, a.over) for a in news(before, away)] == [(When.KERNEL_SLOWER, True), (When.DISK_FULL, True)]
    assert news(before, before) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no \\[\\[rule\\]\\]"),
        ('[[rule]]\nwhen = "rain"', "when = 'rain' is unknown"),
        ('[[rule]]\nwhen = "disk-full"\nfree_below = 2', "free_below is a number of 0 to 1"),
        ('[[rule]]\nwhen = "disk-full"\nurl = "x"', "has no 'url'"),
        ('[[rule]]\nwhen = "disk-full"\n[[rule]]\nwhen = "disk-full"', "two rules have one name"),
        ('[[rule]]\nwhen = "disk-full"\n[[deliver]]\nto = "webhook"', "lacks url_file"),
        ('[[rule]]\nwhen = "disk-full"\n[[deliver]]\nto = "command"\ncommand = "rm"', "list of words"),
        ('every_s = 0\n[[rule]]\nwhen = "disk-full"', "every_s is a number"),
    ],
)
def test_what_is_no_rule(text: str, said: str) -> None:
    with pytest.raises(RulesError, match=said):
        parse_rules(tomllib.loads(text), "rules.toml")


SECRET = "s3cr3t-path"


@pytest.fixture
def receiver() -> Iterator[tuple[HTTPServer, list[dict[str, object]]]]:
    """A web hook on this machine, and what it was sent. /moved/... leads elsewhere."""
    taken: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            moved = self.path.startswith("/moved")
            self.send_response(302 if moved else 500 if self.path.startswith("/broken") else 200)
            if moved:
                self.send_header("Location", f"/{SECRET}")
            else:
                taken.append(json.loads(body))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server, taken
    server.shutdown()
    thread.join()
    server.server_close()


def hook(tmp_path: Path, server: HTTPServer, path: str) -> Delivery:
    file = tmp_path / "hook"
    file.write_text(f"http://user:{SECRET}@127.0.0.1:{server.server_port}{path}\n")
    return Delivery("webhook", url_file=str(file))


ALERT = Alert("gone", When.BOX_GONE, "box1/0", "box1/0 was last heard 61 s ago")


def test_a_web_hook_is_told_and_its_address_is_in_no_message(
    tmp_path: Path, receiver: tuple[HTTPServer, list[dict[str, object]]], caplog: pytest.LogCaptureFixture
) -> None:
    server, taken = receiver
    (tmp_path / "hook").write_text(f"http://127.0.0.1:{server.server_port}/{SECRET}")
    deliver(Delivery("webhook", url_file=str(tmp_path / "hook")), [ALERT])
    assert taken[0]["text"] == "tunefarm: gone: box1/0 was last heard 61 s ago"
    taken.clear()
    for path in ("/broken", "/moved", "/x y"):
        with pytest.raises(WebhookError) as raised:
            deliver(hook(tmp_path, server, f"{path}/{SECRET}"), [ALERT])
        assert SECRET not in f"{raised.value} {raised.value.hint}"
    assert len(taken) <= 1  # no redirect was followed
    for url in (f"ftp://{SECRET}", f"http://127.0.0.1:9/{SECRET}", f"http://[{SECRET}"):
        (tmp_path / "hook").write_text(url)
        with pytest.raises(WebhookError) as raised:
            deliver(Delivery("webhook", url_file=str(tmp_path / "hook")), [ALERT])
        assert SECRET not in str(raised.value)
    assert SECRET not in caplog.text


def test_a_command_gets_alerts_as_its_input_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEFARM_API_TOKEN", SECRET)
    out = tmp_path / "out"
    deliver(Delivery("command", command=("sh", "-c", f"cat > {out}; env >> {out}")), [ALERT])
    assert "last heard" in out.read_text()
    assert SECRET not in out.read_text()
    with pytest.raises(DeliveryError, match="ended with status 3: no"):
        deliver(Delivery("command", command=("sh", "-c", "echo no >&2; exit 3")), [ALERT])
    with pytest.raises(DeliveryError, match="could not be run"):
        deliver(Delivery("command", command=("/nowhere",)), [ALERT])


def test_what_was_not_told_is_told_at_the_next_look(
    tmp_path: Path, receiver: tuple[HTTPServer, list[dict[str, object]]], caplog: pytest.LogCaptureFixture
) -> None:
    server, taken = receiver
    delivery = hook(tmp_path, server, "/")
    (tmp_path / "hook").write_text("http://127.0.0.1:9/")
    rules = parse_rules({"rule": [{"when": "disk-full", "free_below": 1.0, "path": str(tmp_path)}]}, "r")
    watch = Watch(type(rules)(rules.rules, (delivery, Delivery("log")), 1.0), _away, _away)
    with caplog.at_level(logging.WARNING, "tunefarm.alerts"):
        [alert] = watch.look()
    assert alert.text in caplog.text
    assert not taken
    (tmp_path / "hook").write_text(f"http://127.0.0.1:{server.server_port}/")
    assert watch.look() == []  # told once
    assert len(taken) == 1


def _away() -> None:
    raise TunefarmError("away")


def test_the_command_looks_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(f'[[rule]]\nname = "disk"\nwhen = "disk-full"\nfree_below = 1.0\npath = "{tmp_path}"\n')
    outcome = run_cli(capfd, "alerts", str(rules), "--once", "--json")
    assert outcome.code == 0, outcome
    assert json.loads(outcome.out)["rule"] == "disk"
    rules.write_text("[[rule]]\n")
    assert run_cli(capfd, "alerts", str(rules), "--once").code == 1
