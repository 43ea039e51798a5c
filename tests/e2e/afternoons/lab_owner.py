"""The lab owner: a farm in one command, quotas, tokens, alerts, boxes: `python -m tests.e2e.afternoons.lab_owner`."""

import re
import socket

from rpc_server.machine.user_name import user_name
from tests.e2e.afternoons.session import Terminal, afternoon
from tests.kit.cli.farm import until

ALERTS = """
[[rule]]
when = "queue-wait"
longer_than_s = 600

[[rule]]
when = "disk-full"
free_below = 1.0
"""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def spend(at: Terminal, trials: int) -> None:
    _keys_by_hand(at)
    ports = f"--tracker-port {_free_port()} --web-port {_free_port()}"
    init = f"farm init farm --yes --box box1 --admin ann --user {user_name()} {ports}"
    tracker = re.search(r"--tracker-port (\d+)", init)
    assert tracker is not None
    assert "made key of box1" in at.type(init)
    again = at.type(init)
    assert "kept key of box1" in again
    assert "\nmade" not in again
    farm = at.folder / "farm"
    del at.farm.environ["TUNEFARM_KEYS"]
    environ = dict(at.farm.environ)
    at.farm.environ["TUNEFARM_KEYS"] = str(farm / "keys" / "tracker")
    at.serve("farm-tracker", "tracker", port=int(tracker[1]))
    at.farm.environ["TUNEFARM_KEYS"] = str(farm / "keys" / "box")
    at.serve("farm-box", f"server --tracker 127.0.0.1:{tracker[1]} --name box1 --cores 0 --key cpu")
    at.farm.environ = environ | {"TUNEFARM_CONFIG": str(farm / "admin.toml")}
    until(lambda: "ready" in at.farm.run("devices").stdout)
    at.type("devices")
    at.type("drain box1 --reason moving")  # as an admin
    at.type("undrain box1")
    _limits(at)
    at.write("rules.toml", ALERTS)
    assert "of the disk of / is free" in at.type("alerts rules.toml --once")
    at.farm.environ["TUNEFARM_KEYS"] = str(farm / "keys" / "tracker")
    assert "--name rack2-box1" in at.type("farm rename box1 rack2-box1")
    assert "may connect no more" in at.type("farm remove rack2-box1 --reason 'sent back'")
    del at.farm.environ["TUNEFARM_KEYS"]
    at.type("devices")


def _limits(at: Terminal) -> None:
    """Set limits for users and tokens."""
    at.type("quota set '*' --runs 2 --device-hours 20")
    at.type("quota set guest --trials 0 --days 7")
    assert "0 of 0" in at.type("quota list")
    at.type(f"quota set {user_name()} --device-hours 0.00001")  # less than a run's first calls take
    at.write("small.toml", 'workloads = ["matmul:16,16,16:float32"]\n[run]\nsample_ms = 2\nsamples = 2\n')
    stopped = at.type("tune small.toml --key cpu --trials 50 --quiet")
    assert "the quota of 0.00001 device hours within 30 days is used up" in stopped
    listed = at.type("runs")
    assert "out of quota" in listed
    assert "go on with: tunefarm tune --resume 1 --key cpu" in listed
    assert "the quota is 0.00001" in at.type("tune --resume 1 --key cpu --quiet", code=1)
    assert at.type("token new ci --role read --release 2026.11").startswith("tf")
    assert "release 2026.11" in at.type("token list")
    at.type("keys group students teaching")


def _keys_by_hand(at: Terminal) -> None:
    """A farm with keys, command by command, and what is said where one is missing."""
    at.farm.environ["TUNEFARM_KEYS"] = str(at.folder / "keys")
    key = re.search(r"^\S{20,}", at.type("keys new --name lab"), re.MULTILINE)
    assert key is not None
    at.type(f"keys authorize {key[0]} --role box --name box1")
    tracker = at.serve("tracker", "tracker")
    at.type(f"keys trust 127.0.0.1:{tracker} {key[0]}")
    address = f"--tracker 127.0.0.1:{tracker}"
    refused = at.type(f"drain box1 {address}", code=1)  # the key is a box's
    assert "only an admin may do that" in refused
    assert "--role admin" in refused
    at.type(f"keys authorize {key[0]} --role admin --name lab")
    assert "no device" in at.type(f"doctor {address}", code=4)
    at.type(f"devices {address}")
    wrong = at.type(f"lease 'cpu|edge' {address} -- true", code=1)
    assert "common tag" in wrong
    assert at.type("token new laptop --role read").startswith("tf")
    assert "laptop" in at.type("token list")
    at.type("db check")


if __name__ == "__main__":
    afternoon(spend, 20)
