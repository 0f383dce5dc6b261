"""What is told of logs that were steady? Failures, culprits and shifts of level, over all files of some folders.

python bench/alarms.py FOLDER ... [--largest MB] [--part I/N]: a line for each alarm, to be judged by hand, and their
number in runs that have steps.
"""

import argparse
import time
from pathlib import Path

import perflog
from perflog.metrics.registry import Tables
from perflog.metrics.step_levels import run_levels
from perflog.metrics.step_series import step_series


def alarms(log):
    """Yield the alarms of a log."""
    found = perflog.diagnose(log).as_json()
    if found["kind"] is not None:
        yield f"failure: {found['verdict']}"
    for culprit in found["culprits"]:
        yield f"culprit: {culprit}"
    for run, found in run_levels(Tables(log)).items():
        steps = [found.series.steps.item(level.start) for level in found.levels]
        yield f"levels of run {run}: {[round(value, 6) for value in found.medians]} {found.unit}, since steps {steps}"


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--largest", type=float, default=5, metavar="MB")
    options.add_argument("--part", default="0/1", metavar="I/N", help="the I-th of N parts of the files")
    given = options.parse_args()
    place, of = map(int, given.part.split("/"))
    files = sorted(
        path
        for folder in given.folders
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    read = runs = 0
    for path in files[place::of]:
        if path.stat().st_size > given.largest * 1e6:
            continue
        began = time.monotonic()
        try:
            log = perflog.read(path)
        except perflog.PerflogError:
            continue
        read += 1
        runs += len(step_series(Tables(log)))
        for each in alarms(log):
            print(f"{path}: {each}", flush=True)
        if time.monotonic() - began > 60:
            print(f"{path}: took {time.monotonic() - began:.0f} s", flush=True)
    print(f"{read} logs, {runs} runs with steps")


if __name__ == "__main__":
    main()
