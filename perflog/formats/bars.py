"""The grammar of progress bars: what tqdm and its users, rich and Keras print of a loop that goes on.

    12%|█▏        | 12/100 [00:30<03:40,  2.50s/it, loss=1.2]      tqdm
    14it [00:01, 12.9it/s]                                         tqdm, of a loop of unknown length
    ━━━━╸━━━━━━━ 10/100 0:00:05 • 0:00:45 1.98it/s                 rich, as Lightning uses it
    10/100 [==>.......] - ETA: 5s - loss: 2.3                      Keras 2
    10/100 ━━━━━━━━━━━━ 45s 500ms/step - loss: 2.3                 Keras 3

A *state* is one drawing of a bar. All patterns have bounded repeats and no look-around: they mean the same to RE2 and
to `re`, and read in linear time.
"""

from __future__ import annotations

import re

from perflog.lazy_patterns import lazy_pattern


def _over_bytes(pattern: str) -> str:
    """Return a pattern over characters as a pattern over UTF-8 bytes, without named groups."""
    plain = re.sub(r"[?]P<[^>]*>", "?:", pattern)
    return "".join(c if c.isascii() else "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in plain)


CLOCK = r"(?:[0-9]{1,5} days?, )?(?:[0-9]{1,6}:)?[0-9]{1,2}:[0-9]{2}"
"""Pattern of the time since a bar began, in whole seconds: `00:30`, `1:02:03`, `1 day, 2:03:04`."""

SMOOTHED_RATE = "smoothed_"
"""Prefix of the names of rates that progress bars of training print: `smoothed_s_per_it`."""

MEAN_STEP_TIME = "mean_s_per_step"
"""Name of the mean time of a step since the bar began, which Keras prints."""

OF_BARS = lazy_pattern(r"^(?:\w+_)?bar(?:_total)?$|^smoothed_\w+$|_elapsed$")
"""Names of values that states of bars give."""

_COUNT = r"[0-9]{1,15}(?:\.[0-9]{1,6})?[kMGTP]?"
_LEFT = r"(?:[0-9]{1,5} days?, )?[-0-9:?]{1,16}"
_HEAVY = "(?:━|╸|╺)"
_WITH_TOTAL = (
    r"(?P<share>[0-9]{1,3})%(?P<word> [A-Z][a-z]{1,15} \x7c)?(?:\x7c(?P<drawn>[^\x7c\n\r]{0,1000})\x7c)?(?P<gap> {0,9})"
    rf"(?P<done>{_COUNT})/(?P<total>{_COUNT}|[?]) \[(?P<elapsed>{CLOCK})<(?P<left>{_LEFT})"
)
_WITHOUT_TOTAL = rf"(?P<open_done>{_COUNT})(?P<counted> ?[A-Za-z_]{{1,30}}) \[(?P<open_elapsed>{CLOCK})"
_RICH = (
    rf"(?P<line>{_HEAVY}{{5,400}})(?P<line_gap> {{1,9}})(?P<line_done>{_COUNT})/(?P<line_total>{_COUNT})"
    rf"(?P<clock_gap> {{1,9}})(?P<line_elapsed>{CLOCK}) (?P<dot>•|·) (?P<line_left>{_LEFT})"
)
_KERAS = (
    rf"(?P<keras_done>{_COUNT})/(?P<keras_total>{_COUNT}) (?P<keras_drawn>\[[=>.]{{5,200}}\] -|{_HEAVY}{{5,400}}) "
    rf"(?P<keras_clock>(?:ETA: )?(?:[0-9]{{1,9}}s|{CLOCK}))"
)
_RATE = (
    r"(?P<before> {0,9})(?:(?P<no_rate>[?])|(?P<rate>[0-9]{1,12}(?:\.[0-9]{0,9})?)(?P<scale>[kMGTP]?))"
    r"(?P<unit>s/ ?[A-Za-z_]{1,30}| ?[A-Za-z_]{1,30}/s)"
)
_KERAS_RATE = r"(?: (?P<keras_rate>[0-9]{1,12}(?:\.[0-9]{0,9})?)(?P<keras_unit>[a-zμ]{1,2}/[a-z]{1,9}))"
_INSIDE = r"(?:[^\[\]\n\r]|\[[^\[\]\n\r]*\])*"

NAMED = rf"(?:(?:{_WITH_TOTAL}|{_WITHOUT_TOTAL}|{_RICH})(?:,?{_RATE})?|{_KERAS}{_KERAS_RATE}?)"
"""Pattern of a state up to its rate, over characters, with named groups. `left` may be longer than what rich prints."""

STATE = _over_bytes(
    rf"(?:(?:{_WITH_TOTAL}|{_WITHOUT_TOTAL})(?:,{_INSIDE})?\]|{_RICH}(?:{_RATE})?|{_KERAS}{_KERAS_RATE}?)"
)
"""Pattern of a whole state, from its share or count to its end; without the description before it."""

MARK = _over_bytes(
    rf"(?:{_COUNT}/(?:{_COUNT}|[?]) \[{CLOCK}<{_LEFT}|{_WITHOUT_TOTAL}"
    rf"|{_HEAVY} {{1,9}}{_COUNT}/{_COUNT} {{1,9}}{CLOCK} (?:•|·) {_LEFT}"
    rf"|{_COUNT}/{_COUNT} (?:\[[=>.]{{4}}|{_HEAVY}{{4}}))"
)
"""Pattern that every state contains. It is kept short: mostly it is searched for in lines that have no bar."""
