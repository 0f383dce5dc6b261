"""How long does `perflog ingest` take for a folder of logs? Whole processes, against a plain Python loop.

    make bench
    python bench/folders.py [--runs N] [--before CHECKOUT]

The logs are made by bench/make_campaign.py; bench/naive_folder.py is the loop. `--before` measures another checkout of
perflog too, in turn with this one. Memory is the peak of all processes together (sampled; shared pages count twice).
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from run import ENV, HERE, OUT, measure, middle

CASES = {
    "400 logs of 70 kB": ("layers", 400, "phases"),
    "1,500 logs of 200 kB": ("speedruns", 1500, "steps"),
    "8,000 files of 18 kB": ("experts", 8000, "loads"),
}


def made(kind, logs):
    """A folder of logs of a kind; from the cache or made now."""
    parts = [(HERE / name).read_bytes() for name in ("make_campaign.py", "make_log.py")]
    folder = OUT / "folders" / f"{kind}-{logs}-{hashlib.sha256(b''.join(parts)).hexdigest()[:10]}"
    if not folder.exists():
        for old in folder.parent.glob(f"{kind}-{logs}-*"):
            shutil.rmtree(old)
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run(
            [sys.executable, str(HERE / "make_campaign.py"), kind, str(part), str(logs)], env=ENV, check=True
        )
        os.replace(part, folder)
    for file in folder.iterdir():  # into the page cache, for all alike
        file.read_bytes()
    return folder


def rows_of(store, table):
    """The rows of a table of a store."""
    code = f"import pyarrow.dataset as ds; print(ds.dataset({str(store / table)!r}, format='parquet').count_rows())"
    return int(subprocess.run([sys.executable, "-c", code], env=ENV, check=True, capture_output=True, text=True).stdout)


def take_turns(kind, folder, table, runs, before):
    """Each method `runs` times, round-robin. They must read the same number of rows."""
    out = OUT / "tables" / kind
    ingest = [sys.executable, "-m", "perflog", "ingest", str(folder), "--store", str(out / "store")]
    took = {}
    for _ in range(runs):
        loop = measure(
            [sys.executable, str(HERE / "naive_folder.py"), kind, str(folder), str(out / "loop")], out / "loop"
        )
        took.setdefault("plain loop", []).append(loop)
        if before:
            own = ENV["PYTHONPATH"]
            ENV["PYTHONSAFEPATH"] = "1"  # else `-m` finds the package of the current folder first
            ENV["PYTHONPATH"] = str(before)
            took.setdefault("perflog before", []).append(measure(ingest, out / "store"))
            ENV["PYTHONPATH"] = own
            del ENV["PYTHONSAFEPATH"]
        took.setdefault("perflog", []).append(measure(ingest, out / "store"))
        rows = dict(line.split() for line in loop.output.splitlines())
        if int(rows[table]) != rows_of(out / "store", table):
            sys.exit(f"{kind}: the loop has {rows[table]} rows of {table}, perflog {rows_of(out / 'store', table)}")
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="of each method; shown is the median")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout to compare with")
    args = parser.parse_args()
    for title, (kind, logs, table) in CASES.items():
        folder = made(kind, logs)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        took = take_turns(kind, folder, table, args.runs, args.before)
        loop = middle(took["plain loop"], "seconds")
        print(f"\n{title}, {size:.0f} MB\n{'':16}{'s':>9}{'CPU s':>9}{'tree MiB':>10}{'ms a log':>10}{'x loop':>9}")
        for method, each in took.items():
            seconds, cpu, tree = (middle(each, what) for what in ("seconds", "cpu", "tree"))
            print(f"{method:16}{seconds:9.2f}{cpu:9.2f}{tree:10.0f}{1000 * seconds / logs:10.2f}{loop / seconds:9.1f}")


if __name__ == "__main__":
    main()
