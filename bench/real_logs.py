"""Asks a question of each log in some folders: what studies over real logs share."""

import argparse
import time
from pathlib import Path

import perflog

_SLOW_S = 60


def ask(description, question):
    """Print the answers of `question(log, path)`, texts, for each log in the folders of the command line.

    Returns:
        How many logs were read, how many files are no logs, and how many answers there are.
    """
    options = argparse.ArgumentParser(description=description)
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--largest", type=float, default=5, metavar="MB", help="the largest file that is read")
    options.add_argument("--part", default="0/1", metavar="I/N", help="the I-th of N parts of the files")
    given = options.parse_args()
    place, of = map(int, given.part.split("/"))
    read = left = answers = 0
    for path in _files(given.folders)[place::of]:
        if path.stat().st_size > given.largest * 1e6:
            continue
        began = time.monotonic()
        try:
            log = perflog.read(path)
        except perflog.PerflogError:
            left += 1
            continue
        read += 1
        for each in question(log, path):
            answers += 1
            print(f"{path}: {each}", flush=True)
        if time.monotonic() - began > _SLOW_S:
            print(f"{path}: took {time.monotonic() - began:.0f} s", flush=True)
    return read, left, answers


def _files(folders):
    """Return the files of folders, in order, but hidden ones and those of hidden folders."""
    every = ((path, path.relative_to(folder).parts) for folder in folders for path in folder.rglob("*"))
    return sorted(path for path, parts in every if path.is_file() and not any(part.startswith(".") for part in parts))
