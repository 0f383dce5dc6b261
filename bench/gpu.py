"""What does the reference trainer do on a GPU? One command for a bare machine, within minutes.

    python bench/gpu.py wheels                  # here, once: what the trainer needs beside torch and numpy
    python bench/gpu.py run OUT [--device cuda] [--budget S] [--tiny] [--only PART ...]   # there
    python bench/gpu_results.py OUT             # here: read back, lint, compare, check, judge

The machine needs Python, torch and numpy, and no network. The trainer itself needs click and msgspec: their wheels lie
in bench/wheels and are unpacked beside the results if the machine lacks them. Reading needs much more, so it is done
where perflog is installed, from what comes back.

Each part is a process with its own time limit, and no part may take more than is left of the budget. After each part
everything so far is packed: OUT/logs.tar.gz, OUT/*.json.gz (traces), OUT/figures.json, OUT/failed.txt. So a part that
dies, or the machine that goes away, costs nothing of the parts before. A file above 16 MiB is left out, and is named.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WHEELS = HERE / "wheels"
NEEDED = ("click", "msgspec")
LARGEST = 16 << 20  # bytes of a file that comes back
BUDGET = 420  # seconds
REPEATS = 5
PYTHON = "3.12"  # of the machine with the GPU


def parts(device, tiny):
    """Yield name, time limit in s and command of each part, the most important first."""
    trainer = [sys.executable, "-m", "perflog.trainer"]
    work = [sys.executable, str(HERE / "gpu_work.py")]
    on = ["--device", device]
    preset, steps = ("default", ["--steps", "4"]) if tiny else ("paper", [])
    few = ["--steps", "4"] if tiny else ["--steps", "20"]
    sizes = ["--tiny"] if tiny else []
    dtypes = ("float32",) if tiny else ("bfloat16", "float16")
    yield "machine", 60, [*work, "machine", *on]
    for dtype in dtypes:
        yield f"moe-layer-{dtype}", 60, [*trainer, "moe-layer", "--preset", preset, *on, "--dtype", dtype, *steps]
    yield "products", 90, [*work, "products", *on, *sizes]
    yield "phases", 60, [*work, "phases", *on, *sizes]
    options = [
        "--parameters",
        "bfloat16",
        "--set",
        "bias_rate=0.001",
        "--set",
        "shared_experts=1",
        "--set",
        "overlap=2",
    ]
    yield "moe-layer-options", 60, [*trainer, "moe-layer", "--preset", preset, *on, *options, *few]
    for kind in ("sync", "graph", "streams"):
        yield f"trace-{kind}", 60, [*work, f"trace-{kind}", *on, *sizes]
    yield "kernels", 90, [*trainer, "kernels", "--preset", preset, *on, *few[:2], "--output", "kernels.json.gz"]
    for repeat in range(1, REPEATS + 1):
        command = [*trainer, "moe-layer", "--preset", preset, *on, "--dtype", dtypes[0], *few]
        yield f"repeat-{repeat}", 40, command
    for dtype in dtypes:
        yield f"sweep-{dtype}", 120, [*trainer, "sweep", "--preset", preset, *on, "--dtype", dtype, *few]
    yield "pipeline", 90, [*trainer, "pipeline", "--preset", preset, *on, *few]
    if not tiny:  # a layer that fills a large GPU: four times the width, 16 times the work
        full = [*trainer, "moe-layer", "--preset", preset, *on, "--dtype", "bfloat16", "--scale", "4", *few]
        yield "moe-layer-full", 90, full
    two = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *trainer[1:]]
    yield "two-ranks", 60, [*two, "moe-layer", "--preset", preset, *on, "--dtype", dtypes[0], *few]
    yield "two-ranks-options", 60, [*two, "moe-layer", "--preset", preset, *on, *options, *few]
    for tool, command in (
        ("nsys", ["nsys", "profile", "-o", "nsys", "--export", "sqlite"]),
        ("ncu", ["ncu", "--csv", "--launch-count", "50"]),
    ):
        if shutil.which(tool):
            yield tool, 90, [*command, *trainer, "moe-layer", "--preset", "default", *on, "--steps", "4"]


def run(out, device, budget, tiny, only):
    """Run the parts and keep what each leaves. Returns the number of parts that failed."""
    work = out / "work"
    work.mkdir(parents=True, exist_ok=True)
    paths = [str(ROOT), str(HERE), *([str(_site(work))] if _missing() else [])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    end, figures, failed = time.monotonic() + budget, {"device": device, "tiny": tiny, "parts": {}}, []
    for name, limit, command in parts(device, tiny):
        if only and name not in only:
            continue
        left = end - time.monotonic()
        if left < 1:
            failed.append(f"{name}: not begun: the {budget:g} s are over")
            _keep(out, work, figures, failed)
            continue
        begun = time.monotonic()
        with open(work / f"{name}.log", "wb") as log, open(work / f"{name}.err", "wb") as err:
            try:
                code = subprocess.run(
                    command, cwd=work, env=env, stdout=log, stderr=err, timeout=min(limit, left), check=False
                ).returncode
                reason = f"exit code {code}" if code else ""
            except subprocess.TimeoutExpired as error:
                reason = f"no end after {error.timeout:.0f} s"
        figures["parts"][name] = {"seconds": round(time.monotonic() - begun, 3), "failed": reason or None}
        figures["parts"][name]["figures"] = _figures(work / f"{name}.log")
        if reason:
            tail = (work / f"{name}.err").read_text("utf-8", "replace").strip().splitlines()[-15:]
            failed.append("\n    ".join([f"{name}: {reason}", *tail]))
        print(f"{name}: {reason or 'done'} in {figures['parts'][name]['seconds']:.1f} s", flush=True)
        _keep(out, work, figures, failed)
    shutil.rmtree(work)
    return len(failed)


def _missing():
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def _site(work):
    """Unpack the wheels that the machine lacks: a wheel is an archive of importable files."""
    site = work / "site"
    for wheel in sorted(WHEELS.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return site


def _figures(log):
    """The figures of a part of gpu_work.py: the last line of its output, if that is JSON."""
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    try:
        figures = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return figures if isinstance(figures, dict) else None


def _keep(out, work, figures, failed):
    """Write what is there so far, whole or not at all."""
    too_large = []
    for trace in work.glob("*.json.gz"):
        if trace.stat().st_size > LARGEST:
            too_large.append(f"{trace.name}: {trace.stat().st_size:,} bytes, left out")
        elif not (out / trace.name).exists():
            shutil.copyfile(trace, out / trace.name)
    logs = sorted([*work.glob("*.log"), *work.glob("*.err"), *work.glob("*.sqlite")])
    with tarfile.open(out / "logs.part", "w:gz") as archive:
        for path in logs:
            if path.stat().st_size > LARGEST:
                too_large.append(f"{path.name}: {path.stat().st_size:,} bytes, left out")
            elif path.stat().st_size:
                archive.add(path, path.name)
    os.replace(out / "logs.part", out / "logs.tar.gz")
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    (out / "failed.txt").write_text("\n".join([*failed, *too_large, ""]) if failed or too_large else "nothing\n")


def wheels(python, machine):
    """Download the wheels of what the trainer needs beside torch and numpy."""
    WHEELS.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--only-binary", ":all:", "--no-deps", "-d", str(WHEELS)]
    command += ["--python-version", python, "--platform", f"manylinux2014_{machine}"]
    subprocess.run([*command, *NEEDED], check=True)
    print(f"{sum(path.stat().st_size for path in WHEELS.glob('*.whl')):,} bytes in {WHEELS}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    there = commands.add_parser("run", help="run all parts")
    there.add_argument("out", type=Path)
    there.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    there.add_argument("--budget", type=float, default=BUDGET, metavar="S", help="seconds for all parts")
    there.add_argument("--tiny", action="store_true", help="small sizes, for a CPU")
    there.add_argument("--only", nargs="+", metavar="PART", help="these parts alone")
    here = commands.add_parser("wheels", help="fetch what travels along")
    here.add_argument("--python", default=PYTHON)
    here.add_argument("--machine", default=platform.machine())
    given = parser.parse_args()
    if given.command == "wheels":
        wheels(given.python, given.machine)
        return 0
    return 1 if run(given.out, given.device, given.budget, given.tiny, given.only) else 0


if __name__ == "__main__":
    sys.exit(main())
