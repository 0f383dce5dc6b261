"""Panels that a program draws for each step, a pair on each line, as lines of pairs.

    ╭── Training ────────────╮        [Training] step: 100, loss: 2.5, throughput: 1234 tok/s
    │ step       │ 100       │
    │ loss       │ 2.5       │
    │ throughput: 1234 tok/s │
    ╰────────────────────────╯

An empty line replaces each other line of the panel, so that lines keep their numbers. Only a panel with the number of a
step or an epoch, and with pairs alone, becomes a line: columns are a table, and what counts nothing may be settings.

Two more kinds of boxes have pairs alone. A grid has several in each row, and no header: `│ loss │ 2.5 │ lr │ 0.001 │`.
A panel of groups has the name of a group before pairs with bars between them, and goes on in the next row:

    │  loss   policy: 0.1 | kl: 0.0  │      [Metrics] loss/policy: 0.1, loss/kl: 0.0, time/total: 81.0
    │  time   total: 81.0            │
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from perflog.formats.vocabulary import field_of, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.logger_blocks import lines_of

_LINE = "[─━═]"
_TOP = lazy_pattern(rf"[ \t]*[╭┌╔┏╒]{_LINE}[^┬╦┳╤]*(?:[┬╦┳╤][┬╦┳╤─━═ ]*)?[╮┐╗┓╕]\s*")
_RULE = lazy_pattern(rf"[ \t]*[├╠┣╟╞]{_LINE}.*[┤╣┫╢╡]\s*")
_CROSSED = lazy_pattern("[┼╬╋╪╫]")
_BOTTOM = lazy_pattern(rf"[ \t]*[╰└╚┗╘]{_LINE}.*[╯┘╝┛╛](?:\x1b\[[0-9;]*m|\s)*")
_ROW = lazy_pattern(r"[ \t]*[│┃║](?P<cells>.*)[│┃║]\s*")
_BAR = lazy_pattern("[│┃║]")
_BORDER = lazy_pattern("[╭┌╔┏╒╮┐╗┓╕─━═┬╦┳╤ \t]+")
_FIRST = lazy_pattern("(?m)^[ \t]*(?:╭|┌|╔|┏|╒)(?:─|━|═).*\\n[ \t]*(?:│|┃|║|├|╠|┣|╟)".encode())
_PAIR = lazy_pattern(r"(?P<key>[^\W\d][^:=]*?)[ \t]*(?:[:=][ \t]*|[ \t]{2,})(?P<value>\S.*)")
_NAME = lazy_pattern(r"[^\W\d][^:=]*:?")
_COUNT = lazy_pattern(r"(?P<key>[^\W\d][\w ]{0,40}?)[ :=#]*[0-9]+(?:[ \t]*/[ \t]*[0-9]+)?")
_HAS_FIGURE = lazy_pattern(r"[0-9]")
_SHARE = lazy_pattern(r"[0-9.]+[ \t]*%")
_NUMBER = lazy_pattern(r"[-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|nan|inf)")
_GROUP = lazy_pattern(r"  (?P<group>\w+)?[ ]{2,}(?P<pairs>\S.*)")
_GROUP_PAIR = lazy_pattern(r"(?P<key>[^\W\d][^\s:|]*): (?P<value>[^\s|]+)")
_LOSS = lazy_pattern(r"(?i)loss|reward|perplexity")
_OF_STEPS = frozenset("step_time forward backward tflops mfu tokens_per_s samples_per_s grad_norm perplexity".split())
_MOST_LINES = 512


def has_panels(head: bytes) -> bool:
    """Return whether a log may have panels, given its first bytes."""
    return _FIRST.search(head) is not None


def joined_panels(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the bytes of a log with each panel of a step on one line."""
    held: list[bytes] = []
    for line in lines_of(blocks):
        text = line.decode("utf-8", "surrogateescape")
        begins, ends = _TOP.fullmatch(text) is not None, _BOTTOM.fullmatch(text) is not None
        goes_on = ends or _ROW.fullmatch(text) is not None or _RULE.fullmatch(text) is not None
        if held and (not goes_on or len(held) == _MOST_LINES):
            yield b"".join(held)
            held = []
        if not begins and not held:
            yield line
            continue
        held.append(line)
        if ends:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)  # the log ends in it


def _joined(lines: Sequence[bytes]) -> bytes:
    """Return the lines of a panel as one line; as they are if they are no panel of a step."""
    first, *texts = [line.decode("utf-8", "surrogateescape") for line in lines]
    title = _BORDER.sub(" ", first).strip()
    rows = [row["cells"] for text in texts if (row := _ROW.fullmatch(text)) is not None]
    if printed := _pairs_of_grid(rows) or _pairs_of_groups(rows):
        front = f"[{title}] " if title else ""
        text = front + ", ".join(f"{key}: {value}" for key, value in printed)
        return text.encode("utf-8", "surrogateescape") + b"\n" * sum(line.endswith(b"\n") for line in lines)
    if any(_CROSSED.search(text) for text in texts if _RULE.fullmatch(text)):
        return b"".join(lines)
    parts = [part for text in texts if (row := _ROW.fullmatch(text)) is not None for part in _parts(row["cells"])]
    pairs = [part for part in parts if _PAIR.fullmatch(part)]
    counts = [text for text in (title, *parts) if _field_of_count(text)]
    others = {part for part in parts if _HAS_FIGURE.search(part)}.difference(pairs, counts)
    keys = [pair.partition(":")[0] for pair in pairs if counts]
    counts_steps = any(_field_of_count(text) == "step" for text in counts)
    is_of_step = any(_LOSS.search(key) or (counts_steps and field_of(key) in _OF_STEPS) for key in keys)
    is_repeated = len(set(keys)) < len(keys)  # of several parts of the work, or panels of ranks between each other
    if not is_of_step or is_repeated or not all(map(_SHARE.fullmatch, others)):
        return b"".join(lines)
    front = f"{title}, " if title in counts else f"[{title}] " if title else ""
    text = front + ", ".join(parts)
    return text.encode("utf-8", "surrogateescape") + b"\n" * sum(line.endswith(b"\n") for line in lines)


def _pairs_of_grid(rows: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of a grid: in each row names and numbers alternate, in the first one there are two at least."""
    pairs = list[tuple[str, str]]()
    for row in rows:
        cells = [cell.strip() for cell in _BAR.split(row)]
        while cells and not cells[-1]:
            cells.pop()
        names, numbers = cells[::2], cells[1::2]
        is_of_pairs = len(names) == len(numbers) and all(map(_NAME.fullmatch, names))
        if not cells or not is_of_pairs or not all(map(_NUMBER.fullmatch, numbers)):
            return []
        pairs += zip(names, numbers, strict=True)
    return pairs if len(pairs) > len(rows) else []


def _pairs_of_groups(rows: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of a panel of groups, with the name of the group before each, if one of them counts steps."""
    texts = list[tuple[str, str]]()
    for row in rows:
        group = _GROUP.fullmatch(row)
        if group is None or not (group["group"] or texts):
            return []
        if group["group"]:
            texts.append((group["group"], group["pairs"].strip()))
        else:
            texts[-1] = texts[-1][0], f"{texts[-1][1]} {group['pairs'].strip()}"
    pairs = list[tuple[str, str]]()
    for name, text in texts:
        for part in text.split(" | "):
            pair = _GROUP_PAIR.fullmatch(part.strip(" |"))
            if pair is None:
                return []
            pairs.append((f"{name}/{pair['key']}", pair["value"]))
    counts = any(_field_of_count(f"{key.rpartition('/')[2]}: {value}") for key, value in pairs)
    return pairs if counts else []


def _field_of_count(text: str) -> str:
    """Return `step` or `epoch` for a string that is its name and its number: `Global Step: 51/1000`; else ""."""
    count = _COUNT.fullmatch(text)
    field = "" if count is None else field_of(count["key"]) or plain_name(count["key"])
    return field if field in ("step", "epoch") else ""


def _parts(row: str) -> list[str]:
    """Return the cells of a row: a name and its value in two cells are a pair."""
    cells = [cell.strip() for cell in _BAR.split(row)]
    is_pair = len(cells) == 2 and all(cells) and _NAME.fullmatch(cells[0]) and _PAIR.fullmatch(cells[1]) is None
    if is_pair:
        return [f"{cells[0].rstrip(':')}: {cells[1]}"]
    pairs = [(cell, _PAIR.fullmatch(cell)) for cell in cells if cell]
    return [f"{pair['key']}: {pair['value']}" if pair is not None else cell for cell, pair in pairs]
