"""How a measurement's conditions are shown."""

from __future__ import annotations

from tuner.engine.run_recorder import EXPECTED, noise_flags
from webui.pages.conditions import NOISE, conditions


def test_conditions_have_names_and_units():
    given = {
        "load_1m": 7.90088, "number": 3.0, "page_faults": 12345.0, "preempted": 2.0, "timing_s": 0.0123,
        "clock_change": -0.031, "rejected": 1.0, EXPECTED: 1.5e-6, "another_key": 0.5,
        "temperature": 58.0, "gpu_temperature": 61.4, "gpu_clock_mhz": 1980.0, "gpu_slowed": 0.0,
    }  # fmt: skip
    assert dict(conditions(given)) == {
        "Load average, 1 min": "7.90",
        "Calls a sample": "3",
        "Page faults": "12,345",
        "Preempted": "2 times",
        "Timing": "12.3 ms",
        "Clock changed by": "-3 %",
        "Given up as slower": "yes",
        "Expected time": "1.50 µs",
        "another key": "0.50",
        "Temperature": "58 °C",
        "Temperature of the GPU": "61 °C",
        "Clock of the GPU": "1,980 MHz",
        "GPU slowed down": "no",
    }


def test_every_flag_of_a_measurement_is_explained():
    odd = {"load_1m": 99.0, "stolen_s": 1.0, "timing_s": 1.0, "clock_change": 0.5, "throttled": 1.0}
    assert {*noise_flags((1.0, 2.0), odd, cores=1), "drift"} == NOISE.keys()
