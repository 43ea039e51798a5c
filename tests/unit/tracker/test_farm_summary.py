"""TVM's summaries of two answers between which the farm changed."""

from hypothesis import given
from hypothesis import strategies as st

from rpc_server.wire.tracker_records import DeviceInfo, QueueInfo
from tracker.farm_summary import summary, text_summary

KEYS = ("a", "b")


def _device(number: int, key: str, state: str) -> DeviceInfo:
    return DeviceInfo(
        id=f"box{number}/0", box=f"box{number}", slot=0, key=key, tags=(), address=f"127.0.0.1:{9000 + number}",
        state=state, reason="", fingerprint="", attributes={}, user=None, lease=None, held_s=0.0, leases=0,
        busy_s=0.0, known_s=1.0, seen_s=0.0,
    )  # fmt: skip


devices = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(("ready", "leased", "gone"))), max_size=6).map(
    lambda drawn: [_device(number, key, state) for number, (key, state) in enumerate(drawn)]
)
queues = st.lists(st.sampled_from((*KEYS, "gpu")), unique=True).flatmap(
    lambda keys: st.tuples(
        *[
            st.builds(
                QueueInfo,
                key=st.just(key),
                free=st.integers(0, 9),
                pending=st.integers(0, 3),
                devices=st.integers(0, 9),
            )
            for key in keys
        ]
    )
)


@given(devices, queues)
def test_counts_are_of_the_devices_listed(listed, asked):
    found = summary(listed, asked)
    states = [state for box in found["server_info"] for state in box["devices"].values()]
    assert sum(row["free"] for row in found["queue_info"].values()) == states.count("ready")
    assert {box["key"].partition(":")[2] for box in found["server_info"]} <= set(found["queue_info"])
    waits = {queue.key: queue.pending for queue in asked if queue.pending}
    assert {key: row["pending"] for key, row in found["queue_info"].items() if row["pending"]} == waits


def test_a_box_that_registers_between_the_answers():
    found = summary([_device(0, "a", "ready")], [QueueInfo(key="a", free=2, pending=0, devices=2)])
    assert len(found["server_info"]) == 1
    assert found["queue_info"] == {"a": {"free": 1, "pending": 0}}
    text = text_summary([_device(0, "a", "ready")], [QueueInfo(key="a", free=2, pending=1, devices=2)])
    assert text.splitlines()[-1].split() == ["a", "1", "1", "1"]
