"""Do the sentences about a log contradict one another, or the log? Over all files of some folders.

python bench/contradictions.py FOLDER ... [--largest MB] [--part I/N]
"""

import sys
from pathlib import Path

from real_logs import ask

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.contradictions import contradictions

_TEXT = 1 << 22  # bytes of a file that are searched


def of_log(log, path):
    """Yield the contradictions of a log, those of its report among them."""
    with open(path, "rb") as file:
        head = file.read(_TEXT)
    text = "" if b"\0" in head[:4096] or head[:2] == b"\x1f\x8b" else head.decode("utf-8", "replace")
    yield from contradictions(log, text, report=True)


if __name__ == "__main__":
    read, left, found = ask(__doc__, of_log)
    print(f"{read} logs, {left} other files, {found} contradictions")
