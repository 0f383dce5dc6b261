"""Measures `perflog ingest` against other readers: whole processes, from start to exit, with tables on disk.

    make bench
    python bench/run.py [--size MB ...] [--huge] [--log FILE] [--runs N] [--naive-share]

The log is made from the templates of its format (bench/make_log.py) and repeated to size in two ways: literally, so
that it holds thousands of runs, and as one single run. All readers take turns, so that a busy machine slows all of
them; shown are medians. Read them as ratios. Before anything is timed, all readers must agree on every value.

Memory is the peak of the process; `tree` adds up its child processes (sampled; pages they share count twice).
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Only the standard library: Linux reports a child's peak memory as no less than its parent's.

HERE = Path(__file__).parent
OUT = HERE / "out"  # git ignores it
ENV = {**os.environ, "PYTHONPATH": str(HERE.parent), "POLARS_MAX_THREADS": "2"}
ENV.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode at hand; a checkout gets it here
PATTERNS = [  # the 12 line shapes of a step
    "^AG, [0-9.]+, [0-9.]+, 0 $",
    "^GA, [0-9.]+, [0-9.]+, 0 $",
    "^block_info [0-9]+ [0-9]+$",
    "^cuda:[0-9]+ process time:[0-9.]+, a: [0-9.]+, b: [0-9.]+, c: [0-9.]+, d: [0-9.]+$",
    "^[0-9]+ wait time: [0-9.]+$",
    "^[0-9]+$",
    "^perpare first forward gemm: [0-9.]+,  fisrt gemm forward duration: [0-9.]+$",
    "^forward:  [0-9.]+$",
    "^Linear 2 Backward: [0-9.]+, second_gemm: [0-9.]+$",
    "^perpare first backward gemm: N,  fisrt gemm backward duration: N,  weight grad: N,  other: N$".replace(
        "N", "[0-9.]+"
    ),
    "^Linear 1 Backward:  [0-9.]+$",
    r"^STEP-[0-9]+: step_time = [0-9.]+ ms, foward_time = [0-9.]+, backward_time = [0-9.]+, perf = [0-9.]+ tflops\.$",
]
POLARS = {
    "polars, 12 shapes": "lines",
    "polars, 12 shapes, sinks": "sink",
    "polars, + run, step": "steps",
    "polars, same tables": "tables",
}
MATCHING = ("polars, 12 shapes", "polars, 12 shapes, sinks")
SAME = "polars, same tables"
LIBRARIES = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'; import click, pyarrow.compute, pyarrow.parquet"
STARTED = {  # what starts and reads a small log or nothing
    "python -c pass": ["-c", "pass"],
    "its libraries alone": ["-c", LIBRARIES],
    "the same and pandas": ["-c", f"{LIBRARIES}, pandas"],
    "perflog --help": ["-m", "perflog", "--help"],
    "perflog runs": ["-m", "perflog", "runs", "--store", "STORE"],
    "perflog show": ["-m", "perflog", "show", "LOG"],
    "perflog detect": ["-m", "perflog", "detect", "LOG"],
    "perflog analyze steps": ["-m", "perflog", "analyze", "LOG", "steps"],
}


@dataclass
class Took:
    """What one process took."""

    seconds: float
    cpu: float
    peak: float  # MiB
    tree: float  # MiB, with its children
    output: str


def command(method, log):
    """The command line of a method, and the folder its tables go to."""
    out = OUT / "tables" / re.sub(r"\W+", "-", method)
    script = [sys.executable, str(HERE / "polars_script.py")]
    if method == "perflog":
        return [sys.executable, "-m", "perflog", "ingest", str(log), "--store", str(out)], out
    if method == "naive":
        return [sys.executable, str(HERE / "naive.py"), str(log), str(out)], out
    if method == "grep -cE":
        return ["grep", "-cE", *[x for p in PATTERNS for x in ("-e", p)], str(log)], None
    return [*script, POLARS[method], str(log), str(out)], out


def children(pid):
    """Ids of a process and of all below it."""
    found = [pid]
    for parent in found:
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(x) for x in path.read_text().split()]
            except OSError:
                continue
    return found


def memory(pid):
    """MiB in memory now, of a process and all below it; 0 where /proc does not tell."""
    pages = 0
    for each in children(pid):
        try:
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(argv, out=None):
    """Run a command to its end. A failure ends the benchmark."""
    if out is not None:
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
    highest = [0.0]
    done = threading.Event()
    env = {**ENV, "LC_ALL": "C"} if argv[0] == "grep" else ENV
    start = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True) as child:

        def watch():
            while not done.wait(0.05):
                highest[0] = max(highest[0], memory(child.pid))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    done.set()
    watcher.join()
    if child.returncode:
        sys.exit(f"failed: {' '.join(argv)}\n{output}")
    peak = usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return Took(seconds, usage.ru_utime + usage.ru_stime, peak, max(peak, highest[0]), output)


def take_turns(commands, runs):
    """Each command `runs` times, round-robin."""
    took = {name: [] for name in commands}
    for _ in range(runs):
        for name, (argv, out) in commands.items():
            took[name].append(measure(argv, out))
    return took


def middle(took, what):
    return statistics.median(getattr(t, what) for t in took)


def made(kind, size, log):
    """A log of that kind and size in MB, from the cache or made now."""
    source = hashlib.sha256((HERE / "make_log.py").read_bytes() + (log.read_bytes() if log else b"")).hexdigest()
    path = OUT / "logs" / f"{kind}-{size:g}-{source[:10]}.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{kind}-{size:g}-*.txt"):
            old.unlink()
        part = path.with_suffix(".part")
        given = ["--log", str(log)] if log else []
        argv = [sys.executable, str(HERE / "make_log.py"), kind, str(part), f"{size:g}", *given]
        subprocess.run(argv, env=ENV, check=True)
        part.rename(path)
    with open(path, "rb") as file:  # into the page cache, for all alike
        while file.read(1 << 24):
            pass
    return path


def agree(log):
    """All readers read a small log the same."""
    folders = []
    for method in ("perflog", "naive", "polars, 12 shapes", "polars, + run, step", "polars, same tables"):
        argv, out = command(method, log)
        measure(argv, out)
        folders.append(str(out))
    print("  " + measure([sys.executable, str(HERE / "check.py"), "values", *folders]).output.strip())


def available():
    """Free memory in MiB; a guess where /proc does not tell."""
    try:
        return int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / 1024
    except OSError:
        return 8192


def start_up(log, runs):
    """Commands whose time is that of their start, and what the libraries that they import take alone."""
    ingest, store = command("perflog", log)
    given = {"LOG": str(log), "STORE": str(store)}
    commands = {
        "perflog": (ingest, store),  # first: `runs` lists what it has stored
        **{
            name: ([sys.executable, *(given.get(word, word) for word in words)], None)
            for name, words in STARTED.items()
        },
        **{m: command(m, log) for m in ("naive", *POLARS, "grep -cE")},
    }
    return take_turns(commands, max(runs, 5))


def show(title, took, size, notes=()):
    """Print a table."""
    print(f"\n{title}")
    naive = middle(took["naive"], "seconds") if "naive" in took else None
    shapes = min((middle(took[m], "seconds") for m in MATCHING if m in took), default=None)
    same = middle(took[SAME], "seconds") if SAME in took else None
    names = "s", "CPU s", "MB/s", "x naive", "x shapes", "x same", "peak MiB", "tree MiB"
    print(f"  {'':26} " + " ".join(f"{name:>8}" for name in names))
    for name, runs in took.items():
        seconds = middle(runs, "seconds")
        speed = f"{size / seconds:8.1f}" if size and name not in STARTED else f"{'':8}"
        ratios = [f"{x / seconds:8.2f}" if x and speed.strip() else f"{'':8}" for x in (naive, shapes, same)]
        peaks = f"{max(t.peak for t in runs):8.0f} {max(t.tree for t in runs):8.0f}"
        print(f"  {name:26} {seconds:8.3f} {middle(runs, 'cpu'):8.3f} {speed} {' '.join(ratios)} {peaks}")
    for note in notes:
        print(f"  {note}")
    sys.stdout.flush()


def at_size(kind, size, args, peaks):
    """Measure all readers on one log. `peaks`: MiB per MB that each took before."""
    log = made(kind, size, args.log)
    megabytes = log.stat().st_size / 1e6
    commands, notes, share = {}, [], None
    for method in ("perflog", "naive", *POLARS, "grep -cE"):
        if args.only and not any(method.startswith(x) for x in args.only):
            continue
        needs = peaks.get(method, 0) * megabytes
        crowded = needs > 0.8 * available()
        if method == "naive" and megabytes > 150 and (args.naive_share or crowded):
            share = made(kind, 100, args.log)
            commands[method] = command(method, share)
        elif crowded:
            notes.append(f"{method}: not run, it would need about {needs / 1024:.0f} GiB")
        else:
            commands[method] = command(method, log)
    took = take_turns(commands, args.runs)
    if share is not None:
        factor = megabytes * 1e6 / share.stat().st_size
        for t in took["naive"]:
            t.seconds, t.cpu, t.peak, t.tree = (x * factor for x in (t.seconds, t.cpu, t.peak, t.tree))
        notes.append(
            f"naive: measured on a log of {share.stat().st_size / 1e6:.0f} MB, time and memory times {factor:.2f}"
        )
    else:
        peaks |= {"naive": took["naive"][0].peak / megabytes} if "naive" in took else {}
    peaks |= {m: max(t.peak for t in took[m]) / megabytes for m in took if m != "naive" and megabytes > 50}
    kinds = {"repeated": "log repeated literally", "single": "one single run"}
    show(f"{megabytes:.0f} MB, {kinds[kind]}, medians of {args.runs}", took, megabytes, notes)
    if "perflog" in took:
        store = command("perflog", log)[1]
        others = [str(o) for m, (_, o) in commands.items() if m != "perflog" and o and (m != "naive" or share is None)]
        measure([sys.executable, str(HERE / "check.py"), "rows", str(store), *others])
        if "grep -cE" in took and not args.log:
            shapes = sum(int(x) for x in re.findall(r"= (\d+) read", took["perflog"][0].output))
            lines = int(took["grep -cE"][0].output)
            print(f"  {lines} lines of the 12 shapes, {shapes} read by perflog")
    shutil.rmtree(OUT / "tables", ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, action="append", metavar="MB", help="default: 100 and 1000")
    parser.add_argument("--huge", action="store_true", help="4 GB too")
    parser.add_argument("--kind", action="append", choices=("repeated", "single"), help="default: both")
    parser.add_argument("--log", type=Path, help="take this log's lines instead of made ones")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="medians of N (default 3)")
    parser.add_argument("--only", action="append", metavar="METHOD", help="perflog, naive, polars, grep; default: all")
    parser.add_argument(
        "--naive-share",
        action="store_true",
        help="measure the naive reader on 100 MB and scale (it takes 10 s and 1 GB of memory per 100 MB)",
    )
    args = parser.parse_args()
    sizes = (args.size or [100, 1000]) + ([4000] if args.huge else [])
    kinds = args.kind or ["repeated", "single"]

    versions = measure([sys.executable, "-c", "import polars, pyarrow; print(polars.__version__, pyarrow.__version__)"])
    polars, pyarrow = versions.output.split()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, polars {polars} (2 threads), pyarrow {pyarrow}")
    print("x naive, x shapes, x same: times as fast as the naive reader, as the faster polars that only matches the")
    print("12 line shapes, and as the polars that makes the same tables")
    print("\nagreement on one copy of the log, and on one long run")
    one = made("one", 0, args.log)
    agree(one)
    agree(made("single", 2, args.log))
    size = one.stat().st_size / 1e6
    show(
        f"start-up, and one copy of the log ({size:.2f} MB), medians of {max(args.runs, 5)}",
        start_up(one, args.runs),
        size,
    )
    peaks = {}
    for size in sizes:
        for kind in kinds:
            at_size(kind, size, args, peaks)


if __name__ == "__main__":
    main()
