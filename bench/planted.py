"""Does a diagnosis name the planted culprit of a made job, and no other? Over many jobs.

python bench/planted.py FIRST LAST [--results FILE]: the jobs of these seeds. With a file, each answer is kept in it,
and seeds that it holds are not run again.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import perflog

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.planted_jobs import planted

_NAMES = ("rank", "link", "node", "expert", "stage")
FOUND, MISSED, ACCUSED, SPARED = "found", "missed", "accused falsely", "nobody to find, nobody accused"


def answer(seed):
    """Return what is planted, its ranks, and how the diagnosis did."""
    with tempfile.TemporaryDirectory() as folder:
        job = planted(Path(folder) / "job", seed)
        culprits = perflog.diagnose(perflog.read(str(job.folder))).as_json()["culprits"]
    truth = {name: value for name in _NAMES if (value := getattr(job, name)) is not None}
    named = [{name: each[name] for name in truth} if truth.keys() <= each.keys() else each for each in culprits]
    if any(each != truth for each in named):
        outcome = ACCUSED
    elif not truth:
        outcome = SPARED
    else:
        outcome = FOUND if named else MISSED
    return {"seed": seed, "kind": job.kind, "ranks": job.ranks, "outcome": outcome, "truth": truth, "named": named}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("first", type=int)
    options.add_argument("last", type=int)
    options.add_argument("--results", type=Path)
    given = options.parse_args()
    known = given.results.read_text().splitlines() if given.results and given.results.exists() else []
    answers = {row["seed"]: row for row in map(json.loads, known)}
    for seed in range(given.first, given.last + 1):
        if seed not in answers:
            answers[seed] = answer(seed)
            if given.results:
                with given.results.open("a") as file:
                    file.write(json.dumps(answers[seed]) + "\n")
    counts = {}
    for row in answers.values():
        counts.setdefault(row["kind"], Counter())[row["outcome"]] += 1
        if row["outcome"] in (MISSED, ACCUSED):
            print(json.dumps(row))
    for kind, outcomes in sorted(counts.items()):
        print(f"{kind:14}", ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())))
    print(f"{len(answers)} jobs:", ", ".join(f"{o} {c}" for o, c in sorted(sum(counts.values(), Counter()).items())))


if __name__ == "__main__":
    main()
