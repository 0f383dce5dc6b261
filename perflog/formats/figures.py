"""Finds the figures among the numbers of a string.

A figure is a number that a program measured, counted or was given: a time, a loss, a step, a size. Numbers that are
only part of something else are no figures: dates and times of day, versions, addresses, paths, process ids, lines of
source code (`train.py:218`), names (`fp16`, `h4toh`, `cuda:0`, `resnet-50`, `2nd`).
"""

from __future__ import annotations

import re

from perflog.formats.durations import PARTS
from perflog.formats.vocabulary import LEVEL
from perflog.lazy_patterns import lazy_pattern

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?!\d|:\d)"
_SOURCE = r"(?:py|pyx|cc|cpp|cxx|cu|cuh|c|h|hpp|go|rs|java|sh|pl|lua)"
_LEVEL = rf"[)\]]?[ \t|\[]*{LEVEL}\b"
_HEX = "[0-9a-fA-F]"
_DOMAIN = r"(?:svc|[\w-]+-svc|local|internal|lan|com|net|org|edu)"
_METRIC = "[kKMGTPmuµnp]?"
_UNIT = (
    rf"(?:%|x|{_METRIC}(?:i?[bB](?:it|ytes?)?(?:ps)?|s|sec(?:onds?)?|Hz|W|J|V|A|F(?:LOPS?|lops?)|iB)"
    r"|ms|us|ns|min|mins|hours?|hrs?|hr|h|d|days?|C|[KMBTGkm]|it|its|tok|toks?|tokens?|steps?|samples?|images?|imgs?)"
    r"(?:/[A-Za-z]+)*"
)
_PART = r"\d+(?:\.\d+)?"
_IN_NAME = r"\(\d+(?:\.\d+)?%\)(?=\ ?[:=])"  # the part in brackets of a name: percentile(99%) = 3.1
_PHYSICAL = r"(?:°?C|%|[kMG]?Hz|[mkM]?W|[mu]?V|[mu]?A)(?![\w-])"
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?\.\d+(?:[eE][-+]?\d+)?"

_TOKENS = lazy_pattern(
    rf"""
      [-.+~]{{8,}}  # a rule: to look for a name at each of its marks would take a time that is quadratic
    | \d+\ days?,?\ +{_CLOCK}                                                                     # 1 day, 2:03:04
    | \d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}(?:[T _-](?:{_CLOCK}|\d{{6}}\b))?(?:Z|\ ?[+-]\d{{2}}:?\d{{2}}\b)?  # 2022-09-19
    | \d{{1,2}}[-/]\d{{1,2}}(?:[-/]\d{{2,4}})?[T ]{_CLOCK}                                       # 09/19 00:20:22
    | \d{{1,2}}/\d{{1,2}}/\d{{2}}\ @\ {_CLOCK}  # 09/19/22 @ 00:20:22
    | \d{{1,2}}/\d{{1,2}}/\d{{4}}                                                                # 09/19/2022
    | \d{{8}}(?:[-_T]\d{{4,6}}\b|\ +{_CLOCK})                                                     # 20220919_002022
    | \b{_MONTH}\ +\d{{1,2}},?(?:\ +{_CLOCK})?(?:\ +[A-Z]{{2,5}}){{0,2}}(?:\ +\d{{4}}\b)?     # Sep 19 00:20:22 2022
    | \d{{1,2}}[ /-]{_MONTH}[ /-]\d{{2,4}}\b                                                     # 19 Sep 2022
    | (?<=\[)\d{{4}}\ \d{{2}}:\d{{2}}:\d{{2}}(?!\d)  # [0919 00:20:22
    | {_CLOCK}(?:\ ?[AP]M\b)?                                                                    # 00:20:22
    | (?<=\[)\d{{10}}\.\d{{3,9}}(?=\])  # seconds since 1970
    | (?<=\[)[^\W\d][\w.]*-[\w.-]*:\d+:\d+(?=\])  # of a process on a host
    | \w+://\S+                                                                                  # a URL
    | (?:[\w.+-]*[\\/]){{0,64}}[\w.+-]+\.{_SOURCE}[:|]\d+                                           # train.py:218
    | (?<=\[)[^\W\d][\w./-]*:\d+(?=:[^\W\d])                                                     # [metrics:437:log]
    | (?<=\[)[^\W\d][\w.-]*/[\w./-]*:\d+(?=:(?:<|$|\ ))  # [a/train:671:<module>]
    | (?<=\]\[)[^\W\d][\w./-]*:\d+(?=\])                                                         # [INFO][utils:145]
    | [^\W\d][\w.-]*:\d+(?={_LEVEL})                                                            # train:145 INFO
    | [^\W\d][\w.-]*:\d+(?=[ \t|]+[^\W\d][\w.]*:\d+{_LEVEL})                                # host-03:0 train:145 INFO
    | [^\W\d]\w*(?:\.\w+)+:\d+(?=\ -\ )                                                       # core.trainer:261 -
    | (?:,|\bat)\ line\ \d+                                                                      # of a traceback
    | \b[IWEF]\d{{3,4}}\ +{_CLOCK}\ +\d+  # I0317 10:00:13 7, of glog
    | [^\W\d][\w.]*:[^\W\d]\w*:\d+(?![\w.])                                                      # module:function:54
    | [^\W\d]\w*(?:\.[^\W\d]\w*){{2,}}:\d+(?=$|[\ \]|])                                         # package.part.file:54
    | (?<![\w.-])(?:localhost|[^\W\d][\w-]*(?:\.[\w-]+)*\.{_DOMAIN}):\d{{2,5}}(?!\w|\.\d)             # a port of a host
    | \b(?:[pt]id|[PT]ID)[\ =:]\ ?\d+                                                            # of a process
    | (?<=\[)[\w.-]+:\d+(?=\]\ (?:PMIX|PRTE|ORTE|OPAL|mca_|\*\*\*|\[\[))                             # of Open MPI
    | (?<![\w=])[~.]*/(?:[\w.+@~=-]+/?)+                                                         # a path
    | (?<![\w.])[^\W\d][\w.+-]*(?:/[\w.+-]*[^\W\d][\w.+-]*)+                                     # a path without a root
    | \d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?(?![\w.])                                            # an address
    | \d+(?:\.\d+){{2,}}[\w.+-]*                                                                 # a version
    | 0x[0-9a-fA-F]+
    | (?:{_HEX}{{4}}){{1,2}}:{_HEX}{{2}}:{_HEX}{{2}}\.{_HEX}\b|{_HEX}{{8}}:{_HEX}{{2}}:{_HEX}{{2}}\b  # on a bus
    | (?<![\w:.])\d{{4,}}:\d{{4,}}(?![\w:.])                                                       # process and thread
    | \b[GR]TX\ \d{{3,4}}\b                                                                       # a GPU
    | (?<=\[)1/[^\W\d]\w*(?=\])                                                                # delay [1/s]
    | \b(?:cuda|hip|rocm|xpu|npu|gpu|cpu|mps|mlu|hpu|tpu|xla|GPU|CPU):\d+(?:/\d+)?                            # a device
    | (?=[0-9a-f-]*[a-f])(?=[0-9a-f-]*\d)[0-9a-f]{{7,}}(?:-[0-9a-f]{{4,}})*\b                    # a hash
    | [^\W\d]\w*(?:(?:[.-]|@(?!{_PART}{_PHYSICAL}))+\w+)*(?:{_IN_NAME})?                            # a name
    | \d\dd\d\dh\d\dm\d\ds\b  # 02d07h54m43s: a clock of fixed width, as before lines
    | (?P<figure>{PARTS.replace(" ", r"[ ]")}(?![\w-])|(?:{_NUMBER})(?:\ ?%|{_UNIT})?(?![\w-]|\.\d))
    | \d[\w.]*(?:-+\w+)*                                                                         # a name such as 2nd
    """,
    re.VERBOSE,
)

SEVERAL_WORDS = lazy_pattern(
    rf"\b{_MONTH}\b|\bline \d|(?i:[pt]id)[ =:] ?\d|\b\d{{8}} +\d\d:\d\d|\d[-/]\d+(?:[-/]\d+)? \d\d?:|\b[IWEF]\d{{4}} "
    rf"|\bdays?,? \d|\d ?(?:d|h|m)[a-z]*,? (?:and )?\d[\d.]* ?[hms]|\w\(\d[\d.]*%\) ?[:=]|\[\d{{4}} \d\d:"
    rf"|:\d+{_LEVEL}|\.\w+:\d+ - |/\d+ @ |\] (?:PMIX|PRTE|ORTE|OPAL|mca_|\*\*\*|\[\[)"
)
"""Finds strings in which a number is no figure because of the word before it. Elsewhere a word can be judged alone."""


def figure_spans(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each figure in a string.

    Example:
        >>> line = "2022-09-19 00:20:22 [train.py:218] step 20/200: loss 6.5, 13.25GB of fp16"
        >>> [line[begin:end] for begin, end in figure_spans(line)]
        ['20', '200', '6.5', '13.25GB']
    """
    return [token.span() for token in _TOKENS.finditer(text) if token["figure"] is not None]


def name_spans(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each string with digits that is no figure: `20x4MB`, `2024-01-31`."""
    matches = (token for token in _TOKENS.finditer(text) if token["figure"] is None)
    return [match.span() for match in matches if any(char.isdigit() for char in match[0])]
