"""Kinds of failures, as `kinds.toml` describes them, and the kind that a line reports.

A line is searched only if it holds one of the strings `has` of the file. Its pattern may not be in source code, in a
comment or in advice: `raise RuntimeError("CUDA out of memory")` is no failure, and neither is `this may be caused by`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from msgspec import Struct

from perflog.formats.surroundings import prefix_ends
from perflog.lazy_patterns import lazy_pattern

CAUSE, EITHER, ECHO, REPORT, NOTICE = "cause", "either", "echo", "report", "notice"
"""What a message of a kind reports: a cause; a cause or its echo; an echo; what a launcher says of its processes;
nothing that ends anything."""

SUMMARIES = ("first_failed", "later_failed")
"""Kinds of what torchrun's summary says of the ranks that it saw end."""

_FILE = Path(__file__).with_name("kinds.toml")
_MOST_TOKENS = 10  # of the prefix of a line
_CODE = lazy_pattern(
    r"""^\s*(?:\d+[:|]? *)?(?:(?:raise|print|assert|except|return|if|elif|with|import|from|def|grep|echo)[\s(]"""
    r"""|#|//|[*>|-] )|\b(?:logger|logging|log|warnings|pytest)\.\w+\(|`$|["'(]\s*$|\b[fr]"$"""
)
# A word of a path or of quoted arguments is no advice.
_ADVICE = lazy_pattern(
    r"(?i)(?<![/.=_'\"-])\b(?:(?:may|might|can|could|would|will|should)(?: also)? (?:\w+ )?(?:be|cause|lead|result"
    r"|raise|fail|indicate|see|get|happen|throw)|possibl[ey]|if you|in case|to avoid|avoids?|prevents?|instead of"
    r"|consider|try|tips?|note|workaround|known issue|due to possible|handle|retry(?:ing)? (?:on|after)|on oom|until)\b"
    r"(?![/.=_'\"-])[^:]*$"
)


class Text(Struct, frozen=True):
    """A message of a failure: a literal that each of its lines holds, and the pattern that is searched in the line."""

    has: str
    pattern: str
    sample: str | list[str]

    @property
    def samples(self) -> list[str]:
        """Real lines."""
        return [self.sample] if isinstance(self.sample, str) else self.sample


class Kind(Struct, frozen=True):
    """A kind of failure; see `kinds.toml`."""

    name: str
    title: str
    role: str
    text: list[Text]
    source: str = ""
    costs: bool = False
    plain: bool = False
    undone: str = ""


class Report(Struct, frozen=True):
    """What a line reports: a kind, the values of the named groups, and the offset of the failure's message."""

    kind: Kind
    values: dict[str, str]
    start: int
    anchored: bool


TRACEBACK = "Traceback (most recent call last)"
IGNORED = "Exception ignored in"
"""What Python prints before a traceback after which the program goes on."""

NPU_PLACE = "RankID:"
"""A part of the line in which torch_npu names the process that reports an error."""

LAUNCHERS = ("torchrun ", "torch.distributed.run", "torch.distributed.launch", "torch/distributed/run.py",
             "torch/distributed/launcher", "accelerate launch")  # fmt: skip


@cache
def needles() -> tuple[bytes, ...]:
    """Return literals. Each line that reports a failure holds one of them."""
    literals = re.findall(r'^(?:has|undone) += "(.*)"$', _FILE.read_text("utf-8"), re.MULTILINE)
    return tuple(text.encode() for text in dict.fromkeys([*literals, TRACEBACK, IGNORED, NPU_PLACE, *LAUNCHERS]))


@cache
def kinds() -> dict[str, Kind]:
    """Return all kinds by name, in their order."""
    import msgspec
    import tomli

    rows = msgspec.convert(tomli.loads(_FILE.read_text("utf-8"))["kind"], list[Kind])
    return {kind.name: kind for kind in rows}


@cache
def undone_by() -> dict[str, str]:
    """Return, by a message that cancels failures of a kind, the name of the kind."""
    return {kind.undone: name for name, kind in kinds().items() if kind.undone}


def is_plain(name: str | None) -> bool:
    """Return whether failures of a kind are exceptions that only their message reports, and that may be caught."""
    kind = kinds().get(name or "")
    return kind is not None and kind.plain


_MAKERS = (
    ("CUDA", lazy_pattern(r"(?i)cuda|\bcu(?:blas|dnn|fft|mem|rand|solver|sparse)")),
    ("HIP", lazy_pattern(r"HIP|\bhip[A-Z]|HSA_|(?i:rocm|amdgpu)")),
    ("NPU", lazy_pattern(r"\bNPU\b|(?i:ascend|aclnn|torch[._]npu)")),
    ("XPU", lazy_pattern(r"\bXPU\b|\bUR_RESULT_|\bSYCL\b|level_zero")),
    ("MUSA", lazy_pattern(r"\bMUSA\b")),
    ("HPU", lazy_pattern(r"\bHPU\b|\bsynStatus\b|(?i:habana)|MODULE:PT_")),
    ("Neuron", lazy_pattern(r"\b(?:NRT|TDRV):|\bNrt::|\bNeuronCores?\b")),
    ("MPS", lazy_pattern(r"\bMPS\b|\[METAL\]")),
    ("TPU", lazy_pattern(r"\bTPU|(?i:(?<![a-z])hbm)(?![A-Za-z])")),
    ("GPU", lazy_pattern(r"\bGPU\b")),
)
"""Words of a message that say which device it means."""

_OWN_WORD = lazy_pattern(r"\b(CUDA|HIP|NPU|XPU|MUSA|MPS)(?: backend)? (?:out of memory|error)\b")
"""The word of the failure itself: advice after it names variables such as `PYTORCH_CUDA_ALLOC_CONF` on any device."""

_SPELT = ("NPU", "XPU", "HPU", "MPS")  # words that follow `an`


_OF_HCCL = lazy_pattern(r"HCCL|\bHccl[A-Z]|Notify register|Getting socket times out")


def is_of_hccl(message: str) -> bool:
    """Return whether a message is of HCCL, the library of collectives of Ascend NPUs."""
    return _OF_HCCL.search(message) is not None


def title_of(name: str, message: str) -> str:
    """Return the title of a kind, with the word for the device, or the library, that the message names.

    Example:
        >>> title_of("gpu_out_of_memory", "RuntimeError: HIP out of memory. Tried to allocate 2.00 GiB")
        'HIP out of memory'
        >>> title_of("nccl_error", "RuntimeError: [ERROR] HCCL error in: ProcessGroupHCCL.cpp:64")
        'an HCCL error'
    """
    title = kinds()[name].title
    if "NCCL" in title and is_of_hccl(message):
        return title.replace("NCCL", "HCCL")
    if "CUDA" not in title:
        return title
    own = _OWN_WORD.search(message)
    word = own[1] if own else next((word for word, pattern in _MAKERS if pattern.search(message)), "device")
    return title.replace("a CUDA", f"an {word}" if word in _SPELT else f"a {word}").replace("CUDA", word)


_DEVICE_ERROR = lazy_pattern(
    r"\b(?:CUDA|HIP)(?: driver)? error: (?:an? )?"
    r"(?P<what>[^\s`(][^\n`(]{0,79}?)(?:(?: was)? encountered\b| when calling\b|\.? *(?:\n|$))"
)


def detail_of(message: str) -> str:
    """Return which error of the device a message names; "" without one.

    Example:
        >>> detail_of("torch.AcceleratorError: CUDA error: misaligned address")
        'misaligned address'
    """
    match = _DEVICE_ERROR.search(message)
    return "" if match is None else match["what"]


@cache
def _texts() -> list[tuple[Kind, str, re.Pattern[str], bool]]:
    return [
        (kind, text.has, lazy_pattern(text.pattern), text.pattern.startswith("^"))
        for kind in kinds().values()
        for text in kind.text
    ]


def reported(line: str) -> Report | None:
    """Return what a line without its rank label reports; None for no failure."""
    starts: list[int] | None = None
    for kind, has, pattern, is_anchored in _texts():
        if has not in line:
            continue
        if is_anchored:
            starts = starts or _starts(line)
            for start in starts:
                match = pattern.match(line[start:])
                if match is not None:
                    break
            else:
                continue
        else:
            start, match = 0, pattern.search(line)
            if match is None or _speaks_of(line[: match.start()]):
                continue
        values = {name.rstrip("0123456789"): text for name, text in match.groupdict().items() if text is not None}
        return Report(kind, values, start + match.start(), is_anchored)
    return None


def message_start(line: str, report_offset: int) -> int:
    """Return where the message begins: after the prefix of the line, and not after the report of the failure."""
    begin = 0
    for end in _starts(line):
        if end <= report_offset and not re.search(r"(?:Error|Exception|Interrupt|error)\S*: *$", line[:end]):
            begin = end
        else:
            break
    return begin


def _starts(line: str) -> list[int]:
    """Return the offsets at which the message of a line may begin: its first letter, or after tokens of a prefix."""
    raw = line.encode("utf-8", "surrogateescape")
    offsets = prefix_ends(raw)[:_MOST_TOKENS]
    starts = [len(raw[:end].decode("utf-8", "surrogateescape")) for end in offsets]
    return [len(line) - len(line.lstrip()), *starts]


def _speaks_of(before: str) -> bool:
    """Return whether the string before a failure's message shows that the line is code, or advice."""
    if before.startswith("{") and before.endswith('"'):  # the message of a record of JSON begins with it
        return False
    return bool(_CODE.search(before) or _ADVICE.search(before))
