"""A real box outside its hours: shown as closed, not lent, and who waits learns when it opens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.kit.cli.farm import cli_farm, device_states, until


def test_a_box_outside_its_hours_is_not_lent(tmp_path: Path) -> None:
    day = f"{datetime.now(UTC) + timedelta(days=3):%a}"
    with cli_farm(tmp_path) as farm:
        _, tracker = farm.serve("tracker", "tracker")
        farm.environ["TUNEFARM_TRACKER"] = f"127.0.0.1:{tracker}"
        hours = ("--hours", day, "--timezone", "UTC")
        farm.serve("box", "server", "--tracker", f"127.0.0.1:{tracker}", "--name", "box1", *hours)
        until(lambda: device_states(f"127.0.0.1:{tracker}") == ["closed"])
        refused = farm.run("lease", "cpu", "--wait", "1s", "--", "true", code=1).stderr
        assert f"box1/0 is closed: lent {day} only; opens {day} 00:00 UTC" in refused
        assert "closed" in farm.run("devices").stdout
        said = farm.run("doctor").stdout
        assert f"ok  box1/0  state: closed: lent {day} only; opens {day} 00:00 UTC" in said
        assert "0 warnings, 0 wrong" in said
        bad = farm.run("server", "--tracker", f"127.0.0.1:{tracker}", "--port", "0", "--hours", "Moonday", code=1)
        assert "'Moonday' in 'Moonday' is no day" in bad.stderr
