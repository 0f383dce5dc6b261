"""Films `perflog demo`: runs it on a terminal of 80 columns, and draws what that terminal shows as an SVG that moves.

    python docs/cast.py    # writes docs/demo.svg

The text is what the command prints, in its order; only the pauses are made. CSS moves it, so it needs no script and
works as an image. Readers who ask for less motion see the last moment at once.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

FILM = Path(__file__).with_name("demo.svg")
COMMAND = ("perflog", "demo")
_SIZE = (30, 80)  # rows and columns

_LETTER, _LINE, _MARGIN = 8.0, 18, 16  # pixels
_BEGINS_S, _TYPED_S, _THINKS_S, _LINE_S, _READ_S, _STAYS_S = 0.4, 0.09, 0.6, 0.06, 2.5, 12.0
_SGR = re.compile(r"\x1b\[([\d;]*)m")


class Row(NamedTuple):
    """A line of the terminal: its text, and whether it is bold."""

    text: str
    bold: bool


def session() -> list[Row]:
    """Return what the command prints on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *_SIZE, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    env = {**kept, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", *COMMAND]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env) as running:
            os.close(theirs)
            shown = b"".join(_read(ours))
    os.close(ours)
    if running.returncode:
        raise SystemExit(shown.decode())
    return [_row(line) for line in shown.decode().replace("\r\n", "\n").rstrip("\n").split("\n")]


def _read(terminal: int) -> Iterator[bytes]:
    """Yield what appears on a terminal; Linux ends it with an error."""
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:
            return
        if not data:
            return
        yield data


def _row(line: str) -> Row:
    codes = {code for found in _SGR.findall(line) for code in found.split(";")}
    text = _SGR.sub("", line)
    if codes - {"", "0", "1"} or "\x1b" in text:
        raise SystemExit(f"a film has no style for {line!r}")
    return Row(text, "1" in codes)


def film(rows: Sequence[Row]) -> str:
    """Return the SVG: the command is typed, then each row appears, with a pause before each further command."""
    typed = " ".join(COMMAND)
    times = [_BEGINS_S + k * _TYPED_S for k in range(len(typed))]
    now = times[-1] + _THINKS_S
    for place, row in enumerate(rows):
        now += _READ_S if row.bold and place else _LINE_S
        times.append(now)
    whole = now + _STAYS_S
    letters = "".join(f'<tspan class="t t{k}">{escape(letter)}</tspan>' for k, letter in enumerate(typed))
    texts = [_text(place, row, f"t t{len(typed) + place - 1}") for place, row in enumerate(rows, 1)]
    width = round(_SIZE[1] * _LETTER) + 2 * _MARGIN
    height = (len(rows) + 1) * _LINE + 2 * _MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(typed)}, and what it prints</title>",
        f"<style>{_STYLE}{_motion(times, whole)}</style>",
        f'<rect class="ground" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<text x="{_MARGIN}" y="{_down(0)}" class="b">$ {letters}</text>',
        *filter(None, texts),
        "</svg>\n",
    ])  # fmt: skip


def _motion(times: Sequence[float], whole: float) -> str:
    """Rules by which part k appears at its time, stays, and comes again with the next showing."""
    rules = [f".t {{ animation: {whole:.2f}s step-end infinite; }}"]
    for k, seconds in enumerate(times):
        rules.append(
            f"@keyframes k{k} {{ 0% {{ fill-opacity: 0 }} {100 * seconds / whole:.2f}% {{ fill-opacity: 1 }} }}"
        )
        rules.append(f".t{k} {{ animation-name: k{k}; }}")
    return "\n".join([*rules, "@media (prefers-reduced-motion: reduce) { .t { animation: none; } }\n"])


def _down(place: int) -> int:
    return _MARGIN + place * _LINE + 13


def _text(place: int, row: Row, style: str) -> str:
    """A row, whose letters keep their columns in any font."""
    text = row.text.strip()
    if not text:
        return ""
    left = _MARGIN + (len(row.text) - len(row.text.lstrip())) * _LETTER
    bold = " b" if row.bold else ""
    return (
        f'<text x="{left:g}" y="{_down(place)}" textLength="{len(text) * _LETTER:g}" class="{style}{bold}">'
        f"{escape(text)}</text>"
    )


_STYLE = """
text { font: 13.3px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1b1f24; white-space: pre; }
.ground { fill: #f6f8fa; stroke: #d5dae0; }
.b { font-weight: 700; }
@media (prefers-color-scheme: dark) { text { fill: #e4e8ec; } .ground { fill: #14171b; stroke: #363d46; } }
"""


if __name__ == "__main__":
    FILM.write_text(film(session()), encoding="utf-8")
