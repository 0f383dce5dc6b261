"""Folders that tests use."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared"
"""Real logs. They lie beside the repository, not in it."""

SHARED_FOLDER = "PERFLOG_TESTS"
"""Environment variable: a folder for what all processes of a test run share. `conftest.py` makes and removes it."""
