"""Every line of the five logs is accounted for. Records are written back byte for byte, interleaved ones too."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.seeds import FILES, KINDS, hits, lines, log, table

from perflog.formats.model import Line
from perflog.formats.registry import COMMON, known
from perflog.parsing.match.record_starts import RecordStarts

TOTAL = {"moe_layer": 22932, "moe_layer_early": 903, "training_sweep": 1089, "nvprof": 731, "pipeline_layers": 1014}
READ = {
    "moe_layer": rf"cuda:\d|rank: \d, nranks: 4|\[Benchmark\].*|\[Summary\].*| end end end|{'|'.join(KINDS.values())}",
    "moe_layer_early": r"\[Benchmark\].*|\[Summary\].*|STEP-.*",
    "training_sweep": r"(local|world)_(rank|size) \d|\d 4 init success|ddp|STEP-.*| .* \[Summary\] .*",
    "nvprof": r"==3481340==.*| +Type +Time.*|.{15}[ :] +\d+\.\d\d%.*",
    "pipeline_layers": r"\[rank:\d+ stage:.*|\[rank:0\] .* --> OK|  layer\[.*|\| epoch.*|Time elapsed.*|"
    r"> [A-Z][\w ]*:.*|Available GPUs.*|>> (ir_analyze|model class name|split method):.*|stage2rank = .*|"
    r"SEQUENTIAL mode.*|length:.*|data_size=.*|nbatches=.*",
}


@pytest.mark.parametrize("name", FILES)
def test_every_line_is_accounted_for(name: str) -> None:
    found = log(name).line_account
    assert found["total"] == len(lines(name)) == TOTAL[name]
    assert found["total"] == found["read"] + found["context"] + found["unread"]
    assert found["unread"] == 0
    assert found["read"] == sum(1 for _ in hits(name, READ[name]))
    assert log(name).warnings == []


@pytest.mark.parametrize("name", FILES)
def test_runs_cover_their_log(name: str) -> None:
    found = table(name, "runs")
    assert [r["run"] for r in found] == [r["index"] for r in found] == list(range(1, len(found) + 1))
    assert [r["first_line"] for r in found[1:]] == [r["last_line"] + 1 for r in found[:-1]]


def rendered(line: Line, text: str) -> str:
    values = line.template.match(text)
    assert values is not None
    return line.template.render(values)


def fragments_of(starts: RecordStarts, declared: list[Line], text: str) -> list[tuple[Line, str]]:
    """The records of a line that several of them share, each with the line that reads it; [] for another line."""
    raw = text.encode().rstrip(b" \t")
    cuts = dict(starts.cuts(pa.array([raw], pa.binary()))).get(0, [])
    pieces = [raw[a:b].decode() for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)] if cuts else []
    known_alone = [line for line in declared if line.role in ("line", "context")]
    return [(line, piece) for piece in pieces for line in known_alone if line.template.match(piece) is not None]


@pytest.mark.parametrize("name", FILES)
def test_read_lines_are_written_back(name: str) -> None:
    (form,) = {known()[r] for r in log(name).table("runs")["format"]}
    declared = [*known()[COMMON].lines, *form.lines]
    read = [line for line in declared if line.read]
    starts = RecordStarts((form, line) for line in declared)
    checked = 0
    for text in lines(name):
        copies = [rendered(line, text) for line in read if line.template.match(text) is not None]
        if copies:
            assert copies == [text]
            checked += 1
        elif fragments := fragments_of(starts, declared, text):
            assert "".join(piece for _, piece in fragments) == text.rstrip(" ")
            mine = [(line, piece) for line, piece in fragments if line.read]
            assert [rendered(line, piece) for line, piece in mine] == [piece for _, piece in mine]
            checked += bool(mine)
    assert checked == log(name).line_account["read"]
