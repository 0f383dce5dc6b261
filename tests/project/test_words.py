"""The words of the field: none of ours is more frequent than in the projects that were counted."""

from __future__ import annotations

import subprocess
import sys

from support.paths import ROOT


def test_no_word_is_above_its_limit() -> None:
    done = subprocess.run([sys.executable, "bench/words.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_lines_with_a_word_are_listed() -> None:
    done = subprocess.run(
        [sys.executable, "bench/words.py", "bench/words.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "bench/words.py:" in done.stdout
