"""Regular expressions that are compiled when they are first used: a command uses few of those that its modules have."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, AnyStr, Generic, cast


class _LazyPattern(Generic[AnyStr]):
    """Has the attributes of the compiled pattern from the first time on that one of them is asked for."""

    def __init__(self, text: AnyStr, flags: int) -> None:
        self._text: AnyStr = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of a protocol, such as pickle
            raise AttributeError(name)
        compiled = re.compile(self._text, self._flags)
        vars(self).update({each: getattr(compiled, each) for each in dir(compiled) if not each.startswith("_")})
        return getattr(compiled, name)


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern to match, search and replace with. It is compiled, and an error of it raised, when first used.

    Functions of `re` do not take it instead of a string.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))


@lru_cache(512)
def kept_pattern(text: str) -> re.Pattern[bytes]:
    """Return a compiled pattern for bytes. Many small logs are asked for the same ones."""
    return re.compile(text.encode())
