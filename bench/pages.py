"""How long does a page take, and how heavy is it? Whole processes, beside the start of matplotlib.

    make bench
    python bench/pages.py [LOG|FOLDER ...] [--runs N]

Without names: a folder of 50 runs of 200 steps, and one run of 500,000 steps, which are made. All take turns with
`python -c "import matplotlib.pyplot"`, so that a busy machine slows all of them; shown are medians. `plots`: bytes
of the figures with their values.
"""

import argparse
import os
import re
import sys
from pathlib import Path

from long_runs import made
from run import OUT, middle, take_turns

_RUNS, _STEPS, _LONG = 50, 200, 500_000
MATPLOTLIB = "import matplotlib.pyplot"


def folder():
    """A folder of runs of a few steps each, cut from different places of one long log."""
    home = OUT / "pages" / "runs"
    home.mkdir(parents=True, exist_ok=True)
    lines = Path(made(_RUNS * _STEPS)[0]).read_text().splitlines(keepends=True)
    for run in range(_RUNS):
        of_run = lines[run * _STEPS : (run + 1) * _STEPS]
        renumbered = (re.sub(r"^step=\d+", f"step={step}", line) for step, line in enumerate(of_run))
        (home / f"run{run:02}.log").write_text("".join(renumbered))
    return str(home)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="*")
    parser.add_argument("--runs", type=int, default=3, help="of each command; shown is the median")
    args = parser.parse_args()
    logs = args.logs or [folder(), made(_LONG)[0]]
    pages = {log: OUT / "pages" / f"{k}.html" for k, log in enumerate(logs)}
    pages[logs[0]].parent.mkdir(parents=True, exist_ok=True)
    commands = {MATPLOTLIB: ([sys.executable, "-c", MATPLOTLIB], None)}
    commands |= {log: ([sys.executable, "-m", "perflog", "report", log, "-o", str(pages[log])], None) for log in logs}
    print(f"{'':44}{'s':>8}{'peak MiB':>10}{'kB':>8}{'plots':>8}")
    for name, times in take_turns(commands, args.runs).items():
        seconds, peak = (middle(times, what) for what in ("seconds", "peak"))
        size = ""
        if name in pages:
            text = pages[name].read_text()
            figures = sum(map(len, re.findall(r"<figure>.*?</figure>", text, re.DOTALL)))
            size = f"{len(text.encode()) / 1e3:8.0f}{figures / 1e3:8.0f}"
        print(f"{os.path.basename(name)[-42:]:44}{seconds:8.2f}{peak:10.0f}{size}")


if __name__ == "__main__":
    main()
