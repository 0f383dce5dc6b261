"""Levels in the golden values of Megatron-LM's tests: sustained jumps that are found, and cuts where nothing differs.

Run it with `python bench/golden_history.py CLONE [--otava PYTHON]`. CLONE is a clone of NVIDIA/Megatron-LM with its
history; PYTHON the interpreter of an environment with apache-otava. A series is the median iteration time of a test,
without its first value, at each commit that changes its file; it has eight versions or more. A jump is sustained if
both of two versions in a row differ by more than 5 % from both before them. A cut is found within one version of a
jump, and false where the medians of three versions on both sides differ by less than 2 %.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from track import OTAVA, OTAVA_P

from perflog.arrays import Floats
from perflog.statistics.levels import FEWEST, course
from perflog.statistics.shared_scatter import shared_scatter

FILES = "tests/functional_tests/**/golden_values*.json"
JUMP, EQUAL, NEAR = 0.05, 0.02, 1


def versions(clone: Path) -> dict[str, list[str]]:
    """The commits that change each file, the oldest first."""
    command = ["log", "--no-merges", "--reverse", "--format=@%H", "--name-only", "--", FILES]
    found: dict[str, list[str]] = {}
    commit = ""
    for line in git(clone, command).decode().splitlines():
        if line.startswith("@"):
            commit = line[1:]
        elif line:
            found.setdefault(line, []).append(commit)
    return found


def git(clone: Path, command: list[str]) -> bytes:
    return subprocess.run(["git", "-C", str(clone), *command], capture_output=True, check=True).stdout


def shown(clone: Path, file: str) -> bytes:
    """A file at a commit; empty where the commit removed it."""
    ran = subprocess.run(["git", "-C", str(clone), "show", file], capture_output=True, check=False)
    return ran.stdout


def iteration_time(content: bytes) -> float:
    """The median iteration time of golden values; NaN where the file has none."""
    try:
        golden = json.loads(content)
        times = golden.get("iteration-time") or golden.get("iteration_timing_avg")
        values = times["values"]
        numbers = np.array([float(x) for x in (values.values() if isinstance(values, dict) else values)])
    except (ValueError, TypeError, KeyError, AttributeError):
        return float("nan")
    known = numbers[np.isfinite(numbers) & (numbers > 0)]
    return float(np.median(known[1:])) if len(known) > 2 else float("nan")


def series(clone: Path) -> Iterator[Floats]:
    """Logarithms of the iteration times of each test that has enough versions."""
    for path, commits in versions(clone).items():
        if len(commits) >= FEWEST:
            times = np.array([iteration_time(shown(clone, f"{commit}:{path}")) for commit in commits])
            times = times[np.isfinite(times)]
            if len(times) >= FEWEST:
                yield np.log(times)


def jumps(logs: Floats) -> list[int]:
    pairs = ((k, logs[k - 2 : k], logs[k : k + 2]) for k in range(2, len(logs) - 1))
    return [k for k, before, after in pairs
            if after.min() - before.max() > JUMP or before.min() - after.max() > JUMP]  # fmt: skip


def is_false(logs: Floats, cut: int) -> bool:
    return bool(abs(np.median(logs[cut : cut + 3]) - np.median(logs[max(cut - 3, 0) : cut])) < EQUAL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--otava", metavar="PYTHON", help="interpreter that has apache-otava")
    arguments = parser.parse_args()
    every = list(series(arguments.clone))
    true = [jumps(logs) for logs in every]
    shared = shared_scatter(every)
    cuts = {
        "perflog": [[level.start for level in course(logs, 0.0, shared).levels[1:]] for logs in every],
        "perflog, each test alone": [[level.start for level in course(logs).levels[1:]] for logs in every],
    }
    if arguments.otava:
        texts = json.dumps([np.exp(logs).tolist() for logs in every])
        ran = subprocess.run([arguments.otava, "-c", OTAVA], input=texts, capture_output=True, text=True, check=True)
        of_series = json.loads(ran.stdout)
        cuts |= {f"Otava, p {p}": [found[k] for found in of_series] for k, p in enumerate(OTAVA_P)}
    print(f"{len(every)} tests, {sum(map(len, every))} versions, {sum(map(len, true))} sustained jumps\n")
    print("| | cuts | jumps found | false |\n| --- | ---: | ---: | ---: |")
    for name, found in cuts.items():
        hits = sum(any(abs(jump - cut) <= NEAR for cut in of) for of, all_of in zip(found, true, strict=True)
                   for jump in all_of)  # fmt: skip
        false = sum(is_false(logs, cut) for logs, of in zip(every, found, strict=True) for cut in of)
        print(f"| {name} | {sum(map(len, found))} | {hits} | {false} |")


if __name__ == "__main__":
    main()
