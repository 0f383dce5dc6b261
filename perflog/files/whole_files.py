"""Files for users that appear whole or not at all: a full disk or a killed process leaves the former file as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perflog.errors import StoreError
from perflog.files.file_names import usable


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a draft, which replaces a file once the block has ended without an error.

    A link to a file stays a link. A pipe or a device has no draft: it is yielded itself.

    Raises:
        StoreError: The file cannot be written.
    """
    path = Path(usable(os.fspath(path)))
    is_file = path.is_file() or not path.exists()
    home = path.resolve() if is_file else path
    draft = home.with_name(f"{home.name}.{os.getpid()}.part") if is_file else home
    try:
        yield draft
        if is_file:
            os.replace(draft, home)
    except OSError as error:
        help = "name another path with -o"
        raise StoreError(f"cannot be written: {error.strerror or error}", str(path), help) from error
    finally:
        if is_file:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
