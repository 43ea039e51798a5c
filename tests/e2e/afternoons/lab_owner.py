"""The lab owner: keys, an admin, the doctor, tokens, from nothing: `python -m tests.e2e.afternoons.lab_owner`."""

import re

from tests.e2e.afternoons.session import Terminal, afternoon


def spend(at: Terminal, trials: int) -> None:
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
    assert at.type("token new ci --role read").startswith("tf")
    assert "ci" in at.type("token list")
    at.type("db check")


if __name__ == "__main__":
    afternoon(spend, 20)
