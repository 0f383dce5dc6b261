"""Do the sentences about a log contradict one another, or the log? Over all files of some folders.

python bench/contradictions.py FOLDER ... [--largest MB]
"""

import argparse
import sys
import time
from pathlib import Path

import perflog

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.contradictions import contradictions

_TEXT = 1 << 22  # bytes of a file that are searched


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--largest", type=float, default=5, metavar="MB")
    options.add_argument("--part", default="0/1", metavar="I/N", help="the I-th of N parts of the files")
    given = options.parse_args()
    place, of = map(int, given.part.split("/"))
    files = sorted(path for folder in given.folders for path in folder.rglob("*") if path.is_file())
    read = left = found = 0
    for path in files[place::of]:
        if path.stat().st_size > given.largest * 1e6:
            continue
        began = time.monotonic()
        try:
            log = perflog.read(path)
        except perflog.PerflogError:
            left += 1
            continue
        read += 1
        with open(path, "rb") as file:
            head = file.read(_TEXT)
        text = "" if b"\0" in head[:4096] or head[:2] == b"\x1f\x8b" else head.decode("utf-8", "replace")
        for each in contradictions(log, text, report=True):
            found += 1
            print(f"{path}: {each}", flush=True)
        if time.monotonic() - began > 60:
            print(f"{path}: took {time.monotonic() - began:.0f} s", flush=True)
    print(f"{read} files, {left} of them no logs, {found} contradictions")


if __name__ == "__main__":
    main()
