"""The description on PyPI: README.md with its relative links made absolute, because PyPI has no files to point to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^]]*\]\()(?!\w+:|#)([^)\s]+)")  # an image has a mark in front


class Readme(MetadataHookInterface):
    """Fills the field `readme`; hatchling finds the class by itself."""

    def update(self, metadata: dict[str, Any]) -> None:
        home = metadata["urls"]["Repository"]
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _LINK.sub(
                lambda link: f"{link[1]}{link[2]}{home}/{'raw' if link[1] else 'blob'}/main/{link[3]}", text
            ),
        }
