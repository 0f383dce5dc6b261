"""Names of files that no system call takes."""

from __future__ import annotations

import os

from perflog.errors import InputError


def usable(name: str) -> str:
    """Return the name of a file or folder as it is.

    Raises:
        InputError: It holds NUL or half of a surrogate pair, which no file can have in its name.
    """
    try:
        if b"\0" not in os.fsencode(name):
            return name
    except UnicodeEncodeError:
        pass
    raise InputError("this is not a valid file name", name, "it contains a character that file names cannot contain")
