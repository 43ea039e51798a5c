"""A task's share of a run's wall time."""

from __future__ import annotations

from tests.kit.tuner.engine import Driver, engine
from tuner.engine.events import EngineTick


def _searching(tasks: int, **limits: float) -> Driver:
    """A run whose tasks have begun, with candidates in flight."""
    state, _ = engine(tasks=tasks, trials=0, finalists=0, **limits)
    driver = Driver(state)
    while not all(task.done for task in state.tasks):
        driver.step()
    return driver


def test_a_lone_tasks_share_is_the_whole_time_whatever_devices_did():
    driver = _searching(1, task_seconds=10)
    driver.send(EngineTick(4.0))
    driver.send(EngineTick(9.0))
    assert driver.state.tasks[0].wall_s == 9.0
    driver.step()
    assert not driver.state.tasks[0].ended
    driver.send(EngineTick(10.0))
    driver.run()
    assert driver.state.ended


def test_tasks_at_work_at_once_share_the_time_and_the_rest_is_free():
    driver = _searching(2, task_seconds=10)
    driver.send(EngineTick(12.0))
    assert [task.wall_s for task in driver.state.tasks] == [6.0, 6.0]
    driver.send(EngineTick(20.0))
    driver.run()
    assert driver.state.ended  # 20 s for two tasks of 10 s each


def test_without_the_limit_time_ends_nothing():
    driver = _searching(1, total_trials=20)
    driver.send(EngineTick(1e6))
    driver.run()
    assert driver.state.tasks[0].done == 20
