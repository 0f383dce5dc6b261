"""How fast are traces and nsys exports read, and against whom? Whole processes, in turn, with their peak memory.

    make bench
    python bench/traces.py [--size MB ...] [--answers MB ...] [--sqlite MB] [--of-rank MB] [--runs N]
                           [--hta PYTHON] [--tracelens PYTHON] [--nsys-ai PYTHON]

Files are made by bench/make_trace.py. Before anything is timed all readers must tell the same number of kernels and the
same sum of their times; who tells another is shown with what it tells. Then perflog and its peers answer the questions
of bench/trace_answers.py, from file to figures: where the time goes, large kernels, causes of idle time.

A peer runs in a Python that the option names, or PERFLOG_BENCH_HTA, PERFLOG_BENCH_TRACELENS, PERFLOG_BENCH_NSYS_AI: its
dependencies do not go with everything. Those that are not installed are left out, and that is said.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys

from peers import add_options, installed
from run import ENV, HERE, OUT, measure, middle, take_turns

STORE = OUT / "tables" / "traces"
SUMS = (
    "import perflog, pyarrow.compute as pc, sys; rows = perflog.load(sys.argv[1]).arrow('events');"
    "rows = rows.filter(pc.equal(rows['kind'].cast('string'), 'kernel'));"
    "print(len(rows), pc.sum(rows['duration_ns']))"
)
COUNT = "import perflog, sys; print(perflog.load(sys.argv[1]).some_columns('events').num_rows)"


def made(kind, size, *more):
    """A file of that kind and size, from the cache or made now; in the page cache either way."""
    source = hashlib.sha256((HERE / "make_trace.py").read_bytes()).hexdigest()[:10]
    suffix = {"chrome": "json", "nsys": "sqlite"}[kind]  # some rivals go by the name
    path = OUT / "traces" / f"{'-'.join((kind, *more)).replace('--', '')}-{size:g}-{source}.{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, str(HERE / "make_trace.py"), kind, f"{path}.part", f"{size:g}", *more], check=True
        )
        os.replace(f"{path}.part", path)
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass
    return path


def perflog(path, *more):
    return [sys.executable, "-m", "perflog", "ingest", str(path), "--store", str(STORE), *more], STORE


def rivals(kind, hta):
    """Name -> the Python and the way of trace_rivals.py, and what it needs."""
    if kind == "chrome":
        return {
            "HolisticTraceAnalysis": (hta, "hta", "import hta"),
            "json": (sys.executable, "json", ""),
            "DuckDB read_json": (sys.executable, "duckdb", "import duckdb"),
        }
    return {
        "sqlite3 + pandas": (sys.executable, "pandas", "import pandas"),
        "DuckDB sqlite_scan": (sys.executable, "duckdb-sqlite", "import duckdb; duckdb.execute('LOAD sqlite')"),
        "SQLite, two sums": (sys.executable, "sqlite", ""),
    }


def present(kind, hta):
    """The rivals that can be run here."""
    found = {}
    for name, (python, way, needs) in rivals(kind, hta).items():
        tried = subprocess.run([python, "-c", needs], capture_output=True, check=False)
        if not tried.returncode:
            found[name] = ([python, str(HERE / "trace_rivals.py"), way], None)
        else:
            print(f"  left out: {name}, which `{needs}` does not find")
    return found


def commands(path, others):
    ours = {"perflog": perflog(path), "perflog --processes 1": perflog(path, "--processes", "1")}
    return ours | {name: ([*argv, str(path)], out) for name, (argv, out) in others.items()}


def agree(path, others):
    """The rivals that can read a file; who tells other kernels is told of."""
    measure(*perflog(path))
    ours = measure([sys.executable, "-c", SUMS, str(STORE)]).output.split()
    print(f"  {path.name}: {ours[0]} kernels, {ours[1]} ns in all")
    able = {}
    for name, (argv, out) in others.items():
        try:
            told = json.loads(measure([*argv, str(path)]).output.strip().splitlines()[-1])
        except SystemExit as error:
            print(f"  left out: {name}, which fails: {str(error).strip().splitlines()[-1]}")
            continue
        able[name] = (argv, out)
        if [str(told["kernels"]), str(told["kernel_ns"])] != ours:
            print(f"  {name} differs: {told}")
    return able


def show(title, path, others, runs):
    size = path.stat().st_size / 1e6
    took = take_turns(commands(path, others), runs)
    ours = middle(took["perflog"], "seconds")
    print(f"\n{title}, {size:.0f} MB, medians of {runs}")
    print(f"{'':24s}{'s':>8s}{'CPU s':>8s}{'MB/s':>8s}{'x ours':>8s}{'peak MiB':>10s}{'tree MiB':>10s}")
    for name, of in took.items():
        seconds = middle(of, "seconds")
        columns = (seconds, middle(of, "cpu"), size / seconds, seconds / ours)
        memory = max(t.peak for t in of), max(t.tree for t in of)
        print(f"{name:24s}" + "".join(f"{c:8.2f}" for c in columns) + "".join(f"{m:10.0f}" for m in memory))
    shutil.rmtree(STORE, ignore_errors=True)


def show_answers(path, peers, runs):
    """From the file to the answers. nsys-ai leaves a cache beside the file, which its second reading uses."""
    cache = path.with_suffix(".nsys-cache")
    commands = {"perflog": [sys.executable, str(HERE / "trace_answers.py"), "perflog"]} | peers
    turns = {name: ([*argv, str(path)], cache if name == "nsys-ai" else None) for name, argv in commands.items()}
    if "nsys-ai" in peers:
        turns["nsys-ai, with its cache"] = (turns["nsys-ai"][0], None)
    turns["perflog, its overview"] = ([sys.executable, "-m", "perflog", str(path)], None)
    took = take_turns(turns, runs)
    ours = middle(took["perflog"], "cpu")
    print(f"\nanswers, {path.name}, {path.stat().st_size / 1e6:.0f} MB, medians of {runs}")
    print(f"{'':24s}{'s':>8s}{'CPU s':>8s}{'x CPU':>8s}{'peak MiB':>10s}{'tree MiB':>10s}")
    for name, of in took.items():
        seconds, cpu = middle(of, "seconds"), middle(of, "cpu")
        memory = max(t.peak for t in of), max(t.tree for t in of)
        print(f"{name:24s}{seconds:8.2f}{cpu:8.2f}{cpu / ours:8.2f}" + "".join(f"{m:10.0f}" for m in memory))
    shutil.rmtree(cache, ignore_errors=True)


def show_ranks(number, size):
    """The files of a job of several ranks, ingested, and the overview of the store."""
    path = made("chrome", size, "--compact")
    folder = path.with_suffix(f".{number}-ranks")
    printed = b'"rank": 0, "world_size": 8'
    for rank in range(number):
        file = folder / f"rank_{rank}.json"
        if not file.exists():
            folder.mkdir(exist_ok=True)
            named = f'"rank": {rank}, "world_size": {number}'.encode()
            file.write_bytes(path.read_bytes().replace(printed, named, 1))
    took = {"ingest": measure(*perflog(folder)), "overview": measure([sys.executable, "-m", "perflog", str(STORE)])}
    counted = measure([sys.executable, "-c", COUNT, str(STORE)]).output.split()[0]
    print(f"\n{number} ranks, {number * path.stat().st_size / 1e6:.0f} MB, {int(counted):,} events, once")
    print(f"{'':24s}{'s':>8s}{'CPU s':>8s}{'peak MiB':>10s}{'bytes/event':>13s}")
    for name, of in took.items():
        each = of.peak * 2**20 / int(counted)
        print(f"{name:24s}{of.seconds:8.2f}{of.cpu:8.2f}{of.peak:10.0f}{each:13.0f}")
    shutil.rmtree(STORE, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, action="append", metavar="MB", help="of traces; default: 15, 300")
    parser.add_argument("--alone", type=float, action="append", metavar="MB", help="without rivals; default: 1000")
    parser.add_argument("--answers", type=float, action="append", metavar="MB", help="of traces; default: 100, 300")
    parser.add_argument("--sqlite", type=float, default=490, metavar="MB", help="of the export; 0: none")
    parser.add_argument("--of-rank", type=float, default=75, metavar="MB", help="of each of 16 ranks (default 75)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="medians of N (default 3)")
    add_options(parser)
    args = parser.parse_args()
    ENV["PYTHONWARNINGS"] = "ignore"
    wanted = {"chrome": args.size or [15, 300]} | ({"nsys": [args.sqlite]} if args.sqlite else {})
    for kind, sizes in wanted.items():
        print(f"{kind}: agreement")
        others = agree(made(kind, 15), present(kind, args.hta))
        for size in sizes:
            show(kind, made(kind, size), others, args.runs)
    print("\nanswers: peers")
    sizes = {"chrome": args.answers or [100, 300], "nsys": [args.sqlite] if args.sqlite else []}
    for kind, reads in (("chrome", "json"), ("nsys", "sqlite")):
        peers = installed(args, reads)
        for size in sizes[kind]:
            show_answers(made(kind, size), peers, args.runs)
    for size in args.alone or [1000]:
        show("chrome, compact", made("chrome", size, "--compact"), {}, 1)
    show_ranks(16, args.of_rank)


if __name__ == "__main__":
    main()
