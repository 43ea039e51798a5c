"""Reports of profiles: rows, texts and devices."""

import json

from tvm.runtime import profiling

text = json.dumps(
    {
        "calls": [
            {
                "Name": {"string": "conv"},
                "Duration (us)": {"microseconds": 120.5},
                "Count": {"count": 2},
                "Percent": {"percent": 60.25},
            },
            {
                "Name": {"string": "dense"},
                "Duration (us)": {"microseconds": 79.5},
                "Count": {"count": 1},
                "Percent": {"percent": 39.75},
            },
        ],
        "device_metrics": {
            "cpu0": {"Duration (us)": {"microseconds": 200.0}, "Count": {"count": 3}, "Percent": {"percent": 100.0}}
        },
        "configuration": {"Executor": {"string": "VM"}},
    }
)
report = profiling.Report.from_json(text)
print(len(report.calls), sorted(str(k) for k in report.calls[0].keys()))
print(sorted(str(k) for k in report.device_metrics), "conv" in str(report), "dense" in report.table())
again = json.loads(report.json())
print(sorted(again), len(again["calls"]), again["calls"][0]["Count"]["count"])
csv = report.csv().splitlines()
print(len([line for line in csv if line]) >= 3, "conv" in report.csv())
print("conv" in report.table(sort=False, aggregate=False, col_sums=False))
print(
    profiling.Duration is not None,
    profiling.Count is not None,
    profiling.Percent is not None,
    profiling.Ratio is not None,
)
print(profiling.MetricCollector is not None)
