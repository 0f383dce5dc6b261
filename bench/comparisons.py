"""How long does `perflog compare` take for two folders of logs, and for two stores? Whole processes, with peak memory.

    make bench
    python bench/comparisons.py [--runs N]

The logs are made by bench/make_campaign.py. `lint` and `analyze` of one of the stores are measured beside it.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys

from run import ENV, HERE, OUT, middle, take_turns

CASES = {"2 x 13 speed runs": ("speedruns", 13), "2 x 200 logs of an MoE layer": ("layers", 200)}
FASTER = ("0", "0.01")  # the share by which the logs of each side are faster


def made(kind, logs):
    """Two folders of logs of a kind, and a store of each; from the cache or made now."""
    parts = [(HERE / name).read_bytes() for name in ("make_campaign.py", "make_log.py")]
    folder = OUT / "campaigns" / f"{kind}-{logs}-{hashlib.sha256(b''.join(parts)).hexdigest()[:10]}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        for side, faster in enumerate(FASTER):
            script, target = str(HERE / "make_campaign.py"), str(part / f"logs-{side}")
            argv = [sys.executable, script, kind, target, str(logs), "--seed", str(side), "--faster", faster]
            subprocess.run(argv, env=ENV, check=True)
            perflog("ingest", target, "--store", str(part / f"store-{side}"))
        os.replace(part, folder)
    return folder


def perflog(*arguments):
    subprocess.run([sys.executable, "-m", "perflog", *arguments], env=ENV, check=True, stdout=subprocess.DEVNULL)


def commands(folder):
    """Name -> the command line, as `take_turns` takes it."""
    stores = [str(folder / f"store-{side}") for side in range(2)]
    words = {
        "compare FOLDER FOLDER": ["compare", str(folder / "logs-0"), str(folder / "logs-1")],
        "compare STORE STORE": ["compare", *stores],
        "lint STORE": ["lint", stores[0]],
        "analyze STORE steps": ["analyze", stores[0], "steps"],
    }
    return {name: ([sys.executable, "-m", "perflog", *arguments], None) for name, arguments in words.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="of each command; shown is the median")
    args = parser.parse_args()
    for title, (kind, logs) in CASES.items():
        took = take_turns(commands(made(kind, logs)), args.runs)
        print(f"\n{title}\n{'':24}{'s':>9}{'CPU s':>9}{'peak MiB':>10}")
        for name, times in took.items():
            seconds, cpu, peak = (middle(times, what) for what in ("seconds", "cpu", "peak"))
            print(f"{name:24}{seconds:9.2f}{cpu:9.2f}{peak:10.0f}")


if __name__ == "__main__":
    main()
