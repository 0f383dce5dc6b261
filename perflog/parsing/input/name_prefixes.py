"""Names of nodes, services, pods or processes before each line of the processes that a launcher started.

    worker-0: step 1, loss 2.5               pdsh, clush, the launcher of DeepSpeed
    trainer-0  | step 1, loss 2.5            docker compose
    train-worker-0 pytorch step 1, loss 2.5  stern: pod and container

    10:00:02 [node01] step 1, loss 2.5       the logger of the program, after its time stamp
    [GPU 1] step 1, loss 2.5                 the program itself
    [10:00:02 DP3 TP0] step 1, loss 2.5      the same: positions in parallel groups
    node01 gpu0 rank4: step 1, loss 2.5      the same, with the rank after the node
    Nov 30 10:00:02 node01 python[7]: step 1 syslog, journalctl: host and process
    (Worker pid=7, ip=10.0.0.1) step 1       Ray: actor and process

Each becomes a label: `[pod/worker-0] step 1, loss 2.5`. Ray's stays on the line too: the reader of failures knows it.
A program may begin its own lines the same way (`layer0: 1.2 ms`). So nearly all of the first lines must have a name,
the names must alternate, and several kinds of lines must follow them. Or the names distinguish the lines of a step:
several print each step, each prints it once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from msgspec import Struct

from perflog.formats.vocabulary import COUNTERS, EVALUATIONS, LEVEL, NUMBERED_PARTS
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.rank_names import are_divided
from perflog.units import STEP_WORDS


class _Form(Struct, frozen=True):
    """How a name is written: patterns of a name, of the separator after it, of the part in which names differ.

    Attributes:
        most_stems: How many different names may remain without that part.
        lead: Pattern of what may precede the name.
        needs_steps: Whether only steps that several names print show that they are names: programs number much.
        stays: Whether the name stays on the line, after the label.
    """

    name: bytes
    separator: bytes
    varies: bytes = rb"[0-9]+"
    most_stems: int = 2
    lead: bytes = b""
    needs_steps: bool = False
    stays: bool = False

    @property
    def pattern(self) -> bytes:
        return b"(?P<lead>" + self.lead + b")(?P<name>" + self.name + b")" + self.separator


_STAMP = rb"(?:(?:[A-Z][a-z]{2}|[0-9][0-9TZ:.,/+-]*) +)"
LEAD = (  # a time stamp, a level, a position in a source file, in any order
    rb"(?>(?>[\[(]?(?:[DIWEF]?[0-9]{1,4}[0-9TZ:.,/+-]{0,40}|[A-Za-z_][A-Za-z0-9_./-]{0,80}\.[a-z]{1,3}:[0-9]{1,6}|"
    + LEVEL.encode()
    + rb")[\]):,|]{0,3}|[-|])(?: {1,4}|(?=[\[(]))){0,6}"
)
_NUMBERED_NAME = rb"[A-Za-z][A-Za-z0-9_.-]{0,62}?(?:[ :=_.-]?[0-9]{1,6})(?:[._-][A-Za-z0-9_.-]{1,40})?"
_RANK_WORD = rb"[\[(]?(?:[Rr](?:ank|k)?|RANK)[ :=]?"
_AFTER_RANK = rb"(?:[\])]:? ?|: ?| [|-] )"
_BEFORE_RANK = (
    rb"(?: (?:gpu|cuda|device|dev)[:=_]?[0-9]{1,3})?(?: [|:-]|:)? (?=" + _RANK_WORD + b"[0-9]{1,9}" + _AFTER_RANK + b")"
)
_GROUP = rb"[DTPECS]P[0-9]{1,4}"
_FORMS = (
    _Form(rb"[A-Za-z][A-Za-z0-9_.-]{0,62}[-_][0-9]{1,6}", rb" {1,40}\| ?", most_stems=16),
    _Form(rb"[A-Za-z][A-Za-z_.-]{0,62}[0-9][A-Za-z0-9_.-]{0,62}|[0-9]+(?:\.[0-9]+){3}", rb": "),
    _Form(rb"[a-z][a-z0-9.-]{0,62}-[a-z0-9]{1,16}", rb" [a-z][a-z0-9-]{0,62} ", rb"[a-z0-9]*[0-9][a-z0-9]*"),
    _Form(rb"[A-Za-z][A-Za-z0-9.-]{0,62} [A-Za-z][A-Za-z0-9_.-]{0,30}(?:\[[0-9]+\])?", rb": ", lead=_STAMP + b"{1,4}"),
    _Form(_NUMBERED_NAME, _BEFORE_RANK, lead=LEAD, needs_steps=True),
    _Form(_GROUP + b"(?:[ _,-]" + _GROUP + b"){0,5}", rb"\]:? ?", lead=rb"\[" + _STAMP + b"{0,3}", needs_steps=True),
    _Form(
        rb"[\[(<](?:" + _NUMBERED_NAME + rb"|[0-9]{1,6}(?:/[0-9]{1,6})?)[\])>]",
        rb":? ?(?:[|-] )?",
        lead=LEAD,
        needs_steps=True,
    ),
    _Form(_NUMBERED_NAME, rb" (?=[\[(]?" + LEVEL.encode() + rb"\b)", lead=LEAD, needs_steps=True),
    _Form(_NUMBERED_NAME + b"|[0-9]{1,6}(?= \\|)", rb"(?:: | \| | - )", lead=LEAD, needs_steps=True),
    _Form(rb"(?:[Rr]ank|RANK)[-_=:]?[0-9]{1,9}", b" ", lead=LEAD, needs_steps=True),
    _Form(
        rb"\([A-Za-z_][A-Za-z0-9_.:-]* pid=[0-9]+(?=[,)])",
        rb"(?:, ip=[0-9a-f.:]+)?\) (?!\[(?:[Rr]ank|default)[ :=0-9])",
        most_stems=16,
        stays=True,
    ),
)
_PATTERNS = [lazy_pattern(form.pattern) for form in _FORMS]
_NUMBERED = frozenset(
    "adapter agent arm attempt bs candidate case chain channel checkpoint ckpt class client config dataset domain "
    "env environment exp experiment fold game generator kernel level lora loss lr member model net network "
    "objective optimizer paramgroup phase player policy population r rk run sample seed seq seqlen slot split "
    "subset task thread token trial v variant version view".split()
)
_OF_A_PROGRAM = frozenset(word.encode() for word in (_NUMBERED | COUNTERS | EVALUATIONS | NUMBERED_PARTS) - {"rank"})
"""Words that programs number themselves: they name no nodes."""

_OF_A_PART = lazy_pattern(rb"(?i)(?<![a-z])(?:" + "|".join(sorted(NUMBERED_PARTS)).encode() + rb")s?[^a-z0-9]*\[")
"""A stem that numbers parts of a step: `model.layers.3`. Its pattern begins with a bracket."""

_DEVICES = frozenset(b"cuda device gpu npu".split())
"""Words that programs number themselves too, but each process may be named by its own device."""

_LONGEST = 256  # bytes: no name with what separates it from the line is longer
_OPENING = 5  # bytes before a name in its own label: `[pod/`
_LEAD_LENGTH = 64  # bytes of a time stamp before a name
_LOOKED_AT = 400  # first lines
_SEARCHED = 1000  # bytes of a line in which its step is looked for
_SAMPLED = 8  # of them, before all are examined: most logs have no names
_NEARLY_ALL = 0.9
_MOST = 0.5
_KINDS = 3  # kinds of lines after the names, at least
_TURN = 4  # lines of one name, at least, before lines of another one
_STEPS = 3  # steps that several names print, at least
_MOST_NAMES = 0.6  # of all, which print a step
_TORN = 0.2  # of the lines of a name: one with fewer lines is two lines that were torn
_TORN_NAMES = 0.02  # of the lines: a name with another text on fewer of them is torn
_DIGITS = lazy_pattern(rb"[0-9]+")
_DIGIT = lazy_pattern(rb"[0-9]")
_NO_LETTERS = lazy_pattern(rb"[^a-z]+")
_FIRST_WORD = lazy_pattern(rb"[A-Za-z]{2,16}\b")
_ENDS_IN_WORD = lazy_pattern(rb"(?:[^ ]+ +)?[^ ]*[A-Za-z][,;]? +\Z")
_LONGEST_WORDS = 128  # bytes of two words: to search a whole line takes a time that grows with its square
_NO_NAME = lazy_pattern(rb"[^A-Za-z0-9_./-]+")
_STEP = lazy_pattern(rb"(?i)(?<![a-z])(?:" + "|".join(sorted(STEP_WORDS)).encode() + rb")[^a-z0-9]{1,16}([0-9]+)")
_WITHIN = lazy_pattern(rb"(?i)(?<![a-z])(?:epoch|ep)[^a-z0-9]{0,4}([0-9]+)")
_RANK = lazy_pattern(rb"(?i)(?<![a-z])rank[^a-z0-9]{0,2}([0-9]+)")
_KNOWN_LABELS = frozenset((b"rank", b"default", b"globalrank", b"worldrank"))
_SHORT_LABELS = frozenset((b"r", b"rk"))
_OF_ALL = rb"(?:(?:[Gg]lobal|[Ww]orld|GLOBAL|WORLD)[-_. ]?)"
_BARE_RANK = lazy_pattern(  # not `[rank 3]`
    rb"(?i)(?:" + _OF_ALL + rb"?rank|rk?)[-_.:= ]?[0-9]{1,9}|[\[(<]rank[-_.]?[0-9]{1,9}[\])>]"
    rb"|[\[(<]" + _OF_ALL + rb"rank[-_.:= ]?[0-9]{1,9}[\])>]"
)  # fmt: skip
_CLOSED = lazy_pattern(rb"\[rank[0-9]{1,9}\]:")
_LABEL_OF_RANK = rb"(?:" + _RANK_WORD + b"([0-9]{1,9})" + _AFTER_RANK + b")?"
_LABELLED = lazy_pattern(_RANK_WORD + b"([0-9]{1,9})" + _AFTER_RANK)


class NamePrefixes(Struct, frozen=True):
    """The names before the lines of a log, as one pattern of what precedes a name, and the name.

    `label` replaces them; without it each name is the label of a pod. If it `stays`, the label comes before it.
    `inside`: pattern of a name inside a line, with what begins a record after it: two processes glued their lines.
    `lead`: pattern of what precedes such a name. `begins`: patterns, each from a literal on, of how the names begin.
    `whole`: lines of several processes without a name inside, digits masked.
    """

    pattern: bytes
    label: bytes = b""
    stays: bool = False
    inside: bytes = b""
    lead: bytes = b""
    begins: Sequence[bytes] = ()
    whole: bytes = b""

    def labelled(self, blocks: Iterator[bytes]) -> Generator[bytes]:
        """Yield the blocks of a log with labels instead of the names.

        The last line of a block waits for the next one, unless it is longer than any name.
        """
        pattern, left, is_inside = lazy_pattern(self.pattern, re.MULTILINE), b"", False
        label = self.label or (_label_before if self.stays else _pod_label)
        begins = [*map(lazy_pattern, self.begins if self.inside else ())]

        def with_labels(data: bytes) -> bytes:
            begun = sum(len(begin.findall(data)) for begin in begins)
            data, count = pattern.subn(label, data)
            # Most blocks have no name inside a line.
            return data if not begins or begun == count else self._labelled_inside(data, begins)

        for block in blocks:
            data = left + block
            if is_inside:  # the line began in an earlier block
                rest, feed, data = data.partition(b"\n")
                yield rest + feed
                is_inside = not feed
            end = data.rfind(b"\n") + 1
            if len(data) - end > _LONGEST:
                is_inside, end = True, len(data)
            yield with_labels(data[:end])
            left = data[end:]
        yield with_labels(left)

    def _labelled_inside(self, data: bytes, begins: Iterable[re.Pattern[bytes]]) -> bytes:
        """Return whole lines with labels instead of the names inside them. A regex over all bytes takes far longer."""
        name, pattern = lazy_pattern(self.inside), lazy_pattern(b"(" + self.lead + b")" + self.inside)
        pieces, end = list[bytes](), 0
        for place in sorted(match.start() for begin in begins for match in begin.finditer(data)):
            if place < end or name.match(data, place, place + _LONGEST) is None:
                continue
            line = max(data.rfind(b"\n", max(place - _LONGEST, 0), place) + 1, place - _LONGEST)
            if place - line <= _OPENING:
                continue
            match = pattern.search(data, max(line, end, place - _LEAD_LENGTH), place + _LONGEST)
            while match is not None and match.end() <= place:  # such as the name before the line
                match = pattern.search(data, match.end(), place + _LONGEST)
            if match is None or not line < match.start() <= place:
                continue
            if not self._goes_on(data[max(line, end) : match.start()]):
                pieces += data[end : match.start()], match.expand(self.label) if self.label else _pod_label(match)
                end = match.end()
        return b"".join([*pieces, data[end:]])

    def _goes_on(self, front: bytes) -> bool:
        """Return whether a sentence goes on with a name: `see [rank3] step 5`. No line without a name has its words."""
        words = ends_in_word(front.rpartition(b"]")[2].lstrip(b":"))  # after the label of the line: `[rank2]:`
        return words is not None and _DIGITS.sub(b"0", words[0]) not in self.whole


def ends_in_word(front: bytes) -> re.Match[bytes] | None:
    """Match the last words before a label in a sentence. A write that another one interrupts rarely ends so."""
    return _ENDS_IN_WORD.search(front, max(len(front) - _LONGEST_WORDS, 0))


def _pod_label(match: re.Match[bytes]) -> bytes:
    """Return the labels that replace a name, and the rank after it, before what precedes the name."""
    lead, name, rank = match[1], _NO_NAME.sub(b"-", match[2]).strip(b"-"), match[3]
    if lead.startswith(b"[") and b"]" not in lead:  # the name was in the bracket too
        lead = lead.rstrip() + b"] " if len(lead) > 1 else b""
    labels = b"[pod/" + (b"process-" + name if name.isdigit() else name) + b"] "
    return labels + (b"[rank" + rank + b"]:" if rank else b"") + lead


def _label_before(match: re.Match[bytes]) -> bytes:
    return _pod_label(match) + match[0]


def name_prefixes(head: bytes) -> NamePrefixes | None:
    """Return the names before the lines of a log, given its first bytes; None if they have none."""
    every = head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
    sampled = every[:: max(1, len(every) // _SAMPLED)]
    for form, pattern in zip(_FORMS, _PATTERNS, strict=True):
        if not any(map(pattern.match, sampled)):
            continue
        lines = [line for line in every if line.strip()]
        found = [match for line in lines if (match := pattern.match(line))]
        if not _alternate(found) or _take_turns(found) or _count_up(found):
            continue
        is_table = b"|" in form.separator and all(b"|" in match.string[match.end() :] for match in found)
        has_steps = len(found) >= _MOST * len(lines) and _distinguish_steps(found)
        has_kinds = len(found) >= _NEARLY_ALL * len(lines) and _share_kinds(found) and not is_table
        if not (has_steps or (has_kinds and not form.needs_steps)):
            continue
        varies = re.compile(form.varies)
        printed = Counter(form.varies.join(map(re.escape, varies.split(match["name"]))) for match in found)
        stems = {stem for stem, count in printed.items() if count > _TORN_NAMES * len(found)}
        words = {_NO_LETTERS.sub(b"", stem.replace(form.varies, b"").lower()) for stem in stems}
        whole = _whole(match["name"] for match in found)
        if words <= _KNOWN_LABELS or (words <= _SHORT_LABELS and _are_ranks(whole)):
            # Formats and labels know `[rank 3] ` and `[default3]:`.
            is_known = 2 * sum(map(_is_label, found)) > len(found)
            if is_known or words == {b"default"} or not all(map(_BARE_RANK.fullmatch, whole)):
                continue
            rank = rb"[\[(<]?" + _OF_ALL + rb"?[Rr](?:[Aa][Nn])?[Kk]?[-_.:= ]?([0-9]{1,9})[\])>]?" + form.separator
            first = b"^(" + form.lead + b")" + rank
            begins, inside = _begins(whole, form), _inside(rank, found)
            lead, texts = _lead_inside(found), _whole_lines(found, begins)
            return NamePrefixes(first, rb"[rank\2]:\1", False, inside, lead, begins, texts)
        numbered = _OF_A_PROGRAM if has_steps else _OF_A_PROGRAM | _DEVICES
        if len(stems) <= form.most_stems and not words & numbered and not any(map(_OF_A_PART.search, stems)):
            names = b"(" + b"|".join(sorted(stems)) + b")"
            if form.stays:
                return NamePrefixes(b"^(" + form.lead + b")" + names + form.separator + b"()", stays=True)
            after = names + form.separator + _LABEL_OF_RANK
            begins = _begins(whole, form)
            inside = _inside(after, found) if begins else b""
            first = b"^(" + form.lead + b")" + after
            texts = _whole_lines(found, begins)
            return NamePrefixes(first, inside=inside, lead=_lead_inside(found), begins=begins, whole=texts)
    return None


def _whole(names: Iterable[bytes]) -> list[bytes]:
    """Return the names of lines, each once, without torn ones: few lines have these."""
    lines = Counter(names)
    return [name for name, count in lines.items() if count > _TORN * max(lines.values())]


def _begins(names: Iterable[bytes], form: _Form) -> list[bytes]:
    """Return patterns of how names begin, from a literal on: `worker[0-9]+` of `worker3`.

    Nothing if a name begins with its number: that may be glued to the number before it.
    """
    varies = re.compile(form.varies)
    stems = {varies.split(name, 1)[0]: form.varies if varies.search(name) else b"" for name in names}
    return sorted(re.escape(stem) + varying for stem, varying in stems.items()) if all(stems) else []


def _inside(name: bytes, found: Sequence[re.Match[bytes]]) -> bytes:
    """Return the pattern of a name inside a line: a word follows with which several of the lines begin after theirs."""
    texts = (match.string[match.end() :] for match in found)
    words = Counter(word[0] for text in texts if (word := _FIRST_WORD.match(_LABELLED.sub(b"", text, 1))))
    often = _often(words)
    return name + b"(?=(?:" + often + rb")\b)" if often else b""


def _whole_lines(found: Sequence[re.Match[bytes]], begins: Iterable[bytes]) -> bytes:
    """Return the lines after the names, each once with digits masked, without those with a name inside."""
    texts = (match.string[match.end() :] for match in found)
    inside = [*map(lazy_pattern, begins)]
    return b"\n".join({_DIGITS.sub(b"0", text) for text in texts if not any(name.search(text) for name in inside)})


def _lead_inside(found: Sequence[re.Match[bytes]]) -> bytes:
    """Return the pattern of what precedes a name inside a line: leads with as many digits as other lines have.

    More may be a number to which the lead is glued.
    """
    return _often(Counter(_DIGIT.sub(b"[0-9]", re.escape(match["lead"])) for match in found)) + b"|"


def _often(counts: Mapping[bytes, int]) -> bytes:
    return b"|".join(sorted(each for each, count in counts.items() if count >= _STEPS))


def _is_label(match: re.Match[bytes]) -> bool:
    """Return whether a name is a label already, which is known wherever it is in a line."""
    return _CLOSED.fullmatch(match[0]) is not None


def _are_ranks(names: Sequence[bytes]) -> bool:
    """Return whether names have the numbers of all ranks of a job, each once."""
    return are_divided([{int(digits) for digits in _DIGITS.findall(name)} for name in names])


def _alternate(found: Sequence[re.Match[bytes]]) -> bool:
    """Return whether names alternate, or the ranks after them: all ranks may be on one node."""
    names = [
        match["name"] + (rank[0] if (rank := _LABELLED.match(match.string, match.end())) else b"") for match in found
    ]
    return sum(1 for _ in groupby(names)) > len(set(names)) > 1


def _take_turns(found: Sequence[re.Match[bytes]]) -> bool:
    """Return whether names of several kinds follow each other for many lines: of models that one process trains.

    The output of processes may come in blocks too, but these have one kind of name.
    """
    names = [match["name"] for match in found]
    kinds = {_DIGITS.sub(b"0", name) for name in names}
    in_turns = sum(count for _, turn in groupby(names) if (count := sum(1 for _ in turn)) >= _TURN)
    return len(kinds) > 1 and in_turns >= _NEARLY_ALL * len(names)


def _count_up(found: Sequence[re.Match[bytes]]) -> bool:
    """Return whether names are a counter with its total, of the parts of a step: `[1/4]` before `[2/4]`, or no `[3/4]`.

    Processes print in any order, and each of them prints.
    """
    names = [match["name"] for match in found if b"/" in match["name"]]
    if not names:
        return False
    counts = [int(_DIGITS.findall(name)[0]) for name in names]
    follows = sum(later in (earlier + 1, min(counts)) for earlier, later in pairwise(counts))
    whole = [[*map(int, _DIGITS.findall(name))] for name in _whole(names)]
    total, printed = max(total for _, total in whole), {count for count, _ in whole}
    are_all = printed in ({*range(total)}, {*range(1, total + 1)})
    return follows >= _NEARLY_ALL * (len(counts) - 1) or not are_all


def _share_kinds(found: Sequence[re.Match[bytes]]) -> bool:
    """Return whether several kinds of lines are after the names, one of these after several names."""
    lines = [(match["name"], _DIGITS.sub(b"0", match.string[match.end() :])) for match in found]
    kinds = {text for _, text in lines}
    shared = {text for text in kinds if len({name for name, each in lines if each == text}) > 1}
    return len(kinds) >= _KINDS and bool(shared)


def first_step(head: bytes) -> tuple[int, int] | None:
    """Return the epoch and the step of the first of some lines that prints a step; None if none does."""
    for line in head.splitlines():
        if (step := _STEP.search(line[:_SEARCHED])) is not None:
            return _epoch_and_step(line[:_SEARCHED], step)
    return None


def _epoch_and_step(text: bytes, step: re.Match[bytes]) -> tuple[int, int]:
    """Return what orders the steps of a run: an epoch counts its steps anew."""
    epoch = _WITHIN.search(text)
    return int(epoch[1]) if epoch else 0, int(step[1])


def _distinguish_steps(found: Sequence[re.Match[bytes]]) -> bool:
    """Return whether most lines are of steps that nearly all names print, and hardly any step twice after one name.

    Not all names: a torn line is of no step, or of another kind.
    """
    printed = list[tuple[bytes, tuple[int, ...], bytes]]()
    begun, reached = Counter[bytes](), dict[bytes, tuple[int, int]]()
    for match in found:
        if (text := match.string[match.end() :][:_SEARCHED]) and (step := _STEP.search(text)):
            rank = _LABELLED.match(text) or _RANK.search(text)
            name = match["name"] + (b"/" + rank[1] if rank else b"")
            number = _epoch_and_step(text, step)
            begun[name] += number < reached.get(name, number)  # an attempt that loads a checkpoint counts them anew
            reached[name] = number
            printed.append((name, (begun[name], *number), _NO_LETTERS.sub(b"", text.lower())))
    names = len(_whole(name for name, _, _ in printed))
    steps = Counter((step, kind) for _, step, kind in set(printed))
    shared = [count for count in steps.values() if count >= _MOST_NAMES * names]
    return (
        names > 1
        and len(shared) >= _STEPS
        and sum(shared) >= _MOST * steps.total()
        and len(set(printed)) >= _NEARLY_ALL * len(printed)
    )
