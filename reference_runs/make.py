"""Make the store of reference runs from their logs: `python reference_runs/make.py LOGS_FOLDER`.

The logs are known by their bytes, whatever their files are called, and get neutral names in the store.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = {  # SHA-256 of a log -> its name in the store, in the order of the README
    "af2e066f5279ebbc244eec04962cb2991dc9497055e360236535e4816fd30cef": "moe_layer.txt",
    "fed62d3521f278da90baae80c841fb8dfba5c3e6aff289b34921886de17dea0b": "moe_layer_early.txt",
    "4d61d46b46bf62851a6e66d5f061ea635e551fa8e422983254cb292641ea0f31": "training_sweep.txt",
    "1bfe5b6574b6d517b0315161d55d9495b9e4de9b26bc868f341dd80c2f928adc": "nvprof.txt",
    "de3aaa32532da25e60be43f85952405fbb9af998aaa643d8c60cc0202e9a2bcb": "pipeline_layers.txt",
}


def gather(logs: Path, folder: Path) -> list[str]:
    """Copy the logs into a folder under their neutral names, which are given back."""
    files = (path for path in sorted(logs.iterdir()) if path.is_file())
    found = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in files}
    missing = [name for sha, name in NAMES.items() if sha not in found]
    if missing:
        sys.exit(f"{logs} does not hold the log of {', '.join(missing)}: see NAMES in {__file__}")
    for sha, name in NAMES.items():
        shutil.copyfile(found[sha], folder / name)
    return list(NAMES.values())


def make(logs: Path, store: Path) -> None:
    """Read the logs and write the store anew."""
    if (HERE.parent / "perflog").is_dir():  # a checkout need not be installed
        sys.path.insert(0, str(HERE.parent))
    import perflog

    with tempfile.TemporaryDirectory() as folder:
        names = gather(logs, Path(folder))
        before = Path.cwd()
        os.chdir(folder)  # a log's name in the store is the name it is read by
        try:
            read = perflog.read(*names)
        finally:
            os.chdir(before)
    if read.warnings or read.lines["unread"]:
        sys.exit("\n".join([f"not all was read: {read.lines}", *read.warnings]))
    shutil.rmtree(store, ignore_errors=True)
    read.save(store)
    (store / ".lock").unlink(missing_ok=True)  # for writers; nobody writes here
    shutil.rmtree(store / ".tmp", ignore_errors=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path, help="folder that holds the five logs")
    make(parser.parse_args().logs.resolve(), HERE / "store")


if __name__ == "__main__":
    main()
