"""Folders that tests use."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared"
"""Real logs. They lie beside the repository, not in it."""
