"""The answers of perflog and of its peers, side by side, beside those of plain loops: Markdown tables.

    python bench/peers.py [--hta PYTHON] [--tracelens PYTHON] [--nsys-ai PYTHON] FILE...

FILE is a trace of torch.profiler or an SQLite export of Nsight Systems. Each tool runs in a Python of its own, so that
perflog need not go with its dependencies. docs/peers.md says how to install them, and why their figures differ.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TOOLS = {  # its column: the way of trace_answers.py, the option that names its Python, what it imports, what it reads
    "HTA": ("hta", "hta", "import hta.trace_analysis", "json"),
    "HTA, last step kept": ("hta-all", "hta", "import hta.trace_analysis", "json"),
    "TraceLens": ("tracelens", "tracelens", "from TraceLens import TreePerfAnalyzer", "json"),
    "nsys-ai": ("nsys-ai", "nsys_ai", "import nsys_ai", "sqlite"),
}
NAMES = {
    "hta": "HolisticTraceAnalysis",
    "tracelens": "TraceLens of AMD-AGI (PyPI's project of this name is another)",
    "nsys_ai": "nsys-ai",
}


def add_options(parser):
    """Options that name the Python of each peer; PERFLOG_BENCH_HTA and so on do the same."""
    for option in NAMES:
        default = os.environ.get(f"PERFLOG_BENCH_{option.upper()}", sys.executable)
        parser.add_argument(f"--{option.replace('_', '-')}", default=default, metavar="PYTHON")


def installed(args, kind):
    """The peers that read files of a kind and are installed: column -> command. Says which are not."""
    found, missing = {}, set()
    for column, (way, option, needs, reads) in TOOLS.items():
        if reads == kind:
            python = getattr(args, option)
            if subprocess.run([python, "-c", needs], capture_output=True, check=False).returncode:
                missing.add(option)
            else:
                found[column] = [python, str(HERE / "trace_answers.py"), way]
    for option in sorted(missing):
        print(f"Not installed: {NAMES[option]}; name a Python that has it: --{option.replace('_', '-')} PYTHON")
    return found


def answers(command, path):
    """The figures of a tool as a dictionary, or why it gave none."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    told = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False, env=env)
    if told.returncode:
        return (told.stderr.strip().splitlines() or ["no reason"])[-1][:120]
    for line in filter(None, told.stderr.splitlines()):
        print(f"{Path(command[-2]).name} {command[-1]}: {line[:120]}\n")
    return json.loads(told.stdout.strip().splitlines()[-1])


def text(value):
    if value is None:
        return ""
    if isinstance(value, dict):
        return "<br>".join(f"{key}: {text(each)}" for key, each in value.items())
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def same_kernels(of, exact):
    """How many of the largest kernels a tool tells with their time, to a thousandth."""
    times = {kernel[0]: kernel[-1] for kernel in exact}
    right = [kernel for kernel in of if abs(kernel[-1] - times.get(kernel[0], 0)) <= 1e-3 * kernel[-1]]
    return f"{len(right)} of {len(exact)}"


def show(path, commands):
    print(f"\n## {path.name}\n")
    told = {column: answers(command, path) for column, command in commands.items()}
    for column in [column for column, of in told.items() if isinstance(of, str)]:
        print(f"{column} fails: {told.pop(column)}\n")
    if not told.get("exact"):
        print("No work of a device.")
        return
    versions = ", ".join(f"{column} {of['version']}" for column, of in told.items() if "version" in of)
    print(f"Times in us. {versions}\n\n| figure | {' | '.join(told)} |\n| --- |{' ---: |' * len(told)}")
    figures = dict.fromkeys(key for of in told.values() for key in of if key not in ("version", "kernels"))
    for figure in figures:
        print(f"| {figure} | {' | '.join(text(of.get(figure)) for of in told.values())} |")
    kernels = (same_kernels(of.get("kernels", []), told["exact"]["kernels"]) for of in told.values())
    print(f"| largest kernels with their time | {' | '.join(kernels)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add_options(parser)
    args = parser.parse_args()
    peers = {}
    for path in args.files:
        with open(path, "rb") as file:
            kind = "sqlite" if file.read(6) == b"SQLite" else "json"
        if kind not in peers:
            peers[kind] = installed(args, kind)
        ours = {name: [sys.executable, str(HERE / "trace_answers.py"), name] for name in ("perflog", "exact")}
        show(path, peers[kind] | ours)


if __name__ == "__main__":
    main()
