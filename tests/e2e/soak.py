"""A randomized mix of faults on a farm of this machine: `python -m tests.e2e.soak SECONDS [SEED]`.

Three boxes, one of them behind a relay, and a few clients work while executors, servers, the tracker, the relay and
clients are killed or stopped at random moments and the network between box and tracker is cut. Says what it did and
what it checked; exit status 1 when something did not hold. The same seed draws the same faults; when they strike
depends on the machine.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.kit.farm.fault_farm import TIMING, FaultFarm, fault_farm, run_soak
from tests.kit.process_tree import wardens

LONGEST_S = 300.0
WORKERS = ("ann", "bob", "cy")
_SHORT, _LONG = 0.5, TIMING.box_timeout_s + 1.5  # seconds that go unnoticed, and that do not


def kill_executor(farm: FaultFarm, rng: random.Random) -> str:
    name = rng.choice(sorted(farm.boxes))
    farm.kill_executor(name)
    return name


def kill_server(farm: FaultFarm, rng: random.Random) -> str:
    name = rng.choice(sorted(farm.boxes))
    farm.kill_box(name)
    time.sleep(rng.random())
    farm.start_box(name)
    return name


def kill_tracker(farm: FaultFarm, rng: random.Random) -> str:
    farm.restart_tracker()
    return ""


def kill_relay(farm: FaultFarm, rng: random.Random) -> str:
    farm.kill_relay()
    time.sleep(rng.random())
    farm.start_relay()
    return ""


def kill_client(farm: FaultFarm, rng: random.Random) -> str:
    name = rng.choice(sorted(farm.workers))
    farm.kill_worker(name)
    farm.start_worker(name)
    return name


def stop_box(farm: FaultFarm, rng: random.Random) -> str:
    name = rng.choice(sorted(farm.boxes))
    return name + _stopped(farm.boxes[name].server.pid, rng)


def stop_executor(farm: FaultFarm, rng: random.Random) -> str:
    name = rng.choice(sorted(farm.boxes))
    pids = wardens(farm.boxes[name].server.pid)
    return name + (_stopped(rng.choice(pids), rng) if pids else ": it has none")


def stop_tracker(farm: FaultFarm, rng: random.Random) -> str:
    return _stopped(farm.tracker.pid, rng)


def stop_relay(farm: FaultFarm, rng: random.Random) -> str:
    assert farm.relay is not None
    return _stopped(farm.relay.pid, rng)


def stop_client(farm: FaultFarm, rng: random.Random) -> str:
    name = rng.choice(sorted(farm.workers))
    return name + _stopped(farm.workers[name].pid, rng)


def cut_network(farm: FaultFarm, rng: random.Random) -> str:
    name = rng.choice(sorted(farm.boxes))
    seconds = rng.choice((_SHORT, _LONG))
    farm.boxes[name].proxy.cut()
    time.sleep(seconds)
    farm.boxes[name].proxy.heal()
    return f"{name} for {seconds:g} s"


def fill_disk(farm: FaultFarm, rng: random.Random) -> str:
    disks = sorted(name for name, options in farm.box_options.items() if "folder" in options)
    if not disks:
        return "no small disk can be mounted here"
    name = rng.choice(disks)
    filler = Path(str(farm.box_options[name]["folder"])) / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    time.sleep(rng.choice((_SHORT, _LONG)))
    filler.unlink()
    return name


FAULTS: tuple[Callable[[FaultFarm, random.Random], str], ...] = (
    kill_executor, kill_server, kill_tracker, kill_relay, kill_client,
    stop_box, stop_executor, stop_tracker, stop_relay, stop_client, cut_network, fill_disk,
)  # fmt: skip


def _stopped(pid: int, rng: random.Random) -> str:
    seconds = rng.choice((_SHORT, _LONG))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    return f" for {seconds:g} s"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of 16 MB on `folder`, where this may mount one."""
    folder.mkdir()
    options = "size=16m,mode=755"
    mounted = os.geteuid() == 0 and not os.system(f"mount -t tmpfs -o {options} tunefarm-soak {folder} 2>/dev/null")
    try:
        yield mounted
    finally:
        if mounted:
            os.system(f"umount -l {folder}")


def soak(seconds: float, seed: int) -> None:
    """Raises AssertionError when an invariant does not hold."""
    rng = random.Random(seed)
    done: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tunefarm-soak-")))
        disk = folder / "disk"
        on_disk = stack.enter_context(small_disk(disk))
        farm = stack.enter_context(fault_farm(folder, "one", seed=seed))
        farm.start_box("two", **({"folder": str(disk)} if on_disk else {}))
        farm.start_box("three", relay=farm.start_relay())
        for name in WORKERS:
            farm.start_worker(name)
        started = time.monotonic()
        order = list(FAULTS)
        while (now := time.monotonic() - started) < seconds:
            if sum(done.values()) % len(order) == 0:
                rng.shuffle(order)  # each kind once before any comes twice
            fault = order[sum(done.values()) % len(order)]
            told = fault(farm, rng)
            done[fault.__name__] += 1
            print(f"{now:6.1f} s  {fault.__name__} {told}".rstrip(), flush=True)
            time.sleep(rng.random() * 2.0)
        print(f"{time.monotonic() - started:6.1f} s  no more faults", flush=True)
        farm.everyone_goes_on()
        acknowledged = sum(farm.acknowledged(name) for name in WORKERS)
        lost = sum(farm.journal(name).read_text().count(" lost ") for name in WORKERS)
    print(f"faults: {', '.join(f'{name} {count}' for name, count in sorted(done.items()))}")
    print(f"held: {acknowledged} acknowledged results, none lost ({lost} times a client lost device or tracker)")
    print(f"held: no device held twice in {farm.watch.events} events of the tracker's log")
    print("held: every lease returned or expired, every device ready again, every client got on")
    print("held: no process left")


def main(arguments: list[str]) -> int:
    return run_soak(arguments, LONGEST_S, "soak of", soak)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
