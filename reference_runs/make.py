"""Make the stores of reference runs from their logs: `python reference_runs/make.py [--train] [LOGS_FOLDER]`.

The five original logs are recognised by their SHA-256, not by name, and get neutral names in the store. The logs of
the reference trainer are in `trainer/`; --train first makes them again on the CPU of this machine.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STORE, TRAINER = HERE / "store", HERE / "trainer"
RECIPES = ("moe-layer", "sweep", "kernels", "pipeline")
NAMES = {  # SHA-256 of a log -> its name in the store, in the order of the README
    "af2e066f5279ebbc244eec04962cb2991dc9497055e360236535e4816fd30cef": "moe_layer.txt",
    "fed62d3521f278da90baae80c841fb8dfba5c3e6aff289b34921886de17dea0b": "moe_layer_early.txt",
    "4d61d46b46bf62851a6e66d5f061ea635e551fa8e422983254cb292641ea0f31": "training_sweep.txt",
    "1bfe5b6574b6d517b0315161d55d9495b9e4de9b26bc868f341dd80c2f928adc": "nvprof.txt",
    "de3aaa32532da25e60be43f85952405fbb9af998aaa643d8c60cc0202e9a2bcb": "pipeline_layers.txt",
}


def gather(logs: Path, folder: Path) -> list[str]:
    """Copy the original logs into a folder under their neutral names, and return these names."""
    files = (path for path in sorted(logs.iterdir()) if path.is_file())
    by_hash = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in files}
    missing = [name for sha, name in NAMES.items() if sha not in by_hash]
    if missing:
        sys.exit(f"{logs} does not hold the log of {', '.join(missing)}: see NAMES in {__file__}")
    for sha, name in NAMES.items():
        shutil.copyfile(by_hash[sha], folder / name)
    return list(NAMES.values())


def unpack(folder: Path) -> list[str]:
    """Write the logs of the trainer into a folder and return their names."""
    packed = [TRAINER / f"{recipe}.cpu.log.gz" for recipe in RECIPES]
    for path in packed:
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    return [path.stem for path in packed]


def train() -> None:
    """Run all recipes with the default preset on this machine's CPU; logs and the Chrome trace go to `trainer/`."""
    with tempfile.TemporaryDirectory() as folder:
        for recipe in RECIPES:
            log = Path(folder, f"{recipe}.cpu.log")
            command = [sys.executable, "-m", "perflog", "regenerate", recipe, "--device", "cpu", "--log", str(log)]
            command += ["--trace", f"{folder}/kernels.cpu.trace.json"] if recipe == "kernels" else []
            paths = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
            subprocess.run([*command, "-o", f"{folder}/store"], check=True, env=os.environ | {"PYTHONPATH": paths})
        TRAINER.mkdir(exist_ok=True)
        for path in (*Path(folder).glob("*.log"), *Path(folder).glob("*.json")):
            (TRAINER / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def make(logs: Path | None, store: Path) -> None:
    """Read the original logs, or those of the trainer if `logs` is None, and rewrite the store."""
    if (HERE.parent / "perflog").is_dir():  # a checkout works without installation
        sys.path.insert(0, str(HERE.parent))
    import perflog

    with tempfile.TemporaryDirectory() as folder:
        names = gather(logs, Path(folder)) if logs else unpack(Path(folder))
        before = Path.cwd()
        os.chdir(folder)  # the name of a log in the store is the path it is read by
        try:
            read = perflog.read(*names)
        finally:
            os.chdir(before)
    if read.warnings or read.line_account["unread"]:
        sys.exit("\n".join([f"some lines were not read: {read.line_account}", *read.warnings]))
    shutil.rmtree(store, ignore_errors=True)
    read.save(store)
    (store / ".lock").unlink(missing_ok=True)  # only writers need it; nobody writes here
    shutil.rmtree(store / ".tmp", ignore_errors=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", action="store_true", help="first make the logs of the trainer again")
    parser.add_argument(
        "logs", type=Path, nargs="?", help="folder with the five original logs; without it their store stays"
    )
    given = parser.parse_args()
    if given.train:
        train()
    make(None, TRAINER / "store")
    if given.logs:
        make(given.logs.resolve(), STORE)


if __name__ == "__main__":
    main()
