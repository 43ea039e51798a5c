"""A run gives up waiting for devices by the time it looked for them, not by the clock alone."""

from __future__ import annotations

from tuner.devices.fleet import DeviceWait


def test_it_is_over_after_the_limit() -> None:
    wait = DeviceWait(2.0)
    looks = [wait.is_over(now, found=False) for now in (10.0, 10.5, 11.5, 12.0, 12.5)]
    assert looks == [False, False, False, False, True]


def test_a_device_begins_it_anew() -> None:
    wait = DeviceWait(2.0)
    assert not any(wait.is_over(now, found=False) for now in (0.0, 1.0, 2.0))
    assert not wait.is_over(3.0, found=True)
    assert not any(wait.is_over(now, found=False) for now in (4.0, 5.0))
    assert wait.is_over(5.5, found=False)


def test_a_process_that_stood_still_did_not_wait() -> None:
    wait = DeviceWait(30.0)
    assert not wait.is_over(0.0, found=False)
    assert not wait.is_over(100.0, found=False)
    assert not wait.is_over(200.0, found=False)


def test_without_patience_the_second_look_ends_it() -> None:
    wait = DeviceWait(0.0)
    assert [wait.is_over(now, found=False) for now in (0.0, 0.25)] == [False, True]
