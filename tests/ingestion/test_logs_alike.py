"""A log is read as if it were alone, whatever logs were read before it in the same process."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perflog
from perflog.ingestion import detect
from perflog.parsing.match.discovery import TemplateDiscovery
from perflog.tables.schema import TABLES

STEP = "step:{k}/9 train_time:{t}ms step_avg:{a}ms\n"
EVALUATION = "step:{k}/9 val_loss:{v} train_time:{t}ms step_avg:{a}ms\n"
SOURCE = "import torch\n# 3 stages\nstages = [4, 8, 12]\n"
RULE = "=" * 100 + "\n"

LINES = {
    "int": "epoch {k} loss 3 acc 0.5\n",
    "float": "epoch {k} loss 3.{k} acc 0.5\n",
    "more": "epoch {k} loss 3.{k} acc 0.5 lr 0.001\n",
    "time": "it {k}: time 20.{k}ms mem 300 MB\n",
    "colon": "loss: 2.{k}, lr: 0.01\n",
    "json": '{{"step": {k}, "loss": 2.{k}}}\n',
    "words": "saved a checkpoint\n",
}


@pytest.fixture(autouse=True)
def _nothing_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "_shown_before", detect._ShownBefore())


def told(path: Path, text: str) -> dict[str, str]:
    """The rows of all tables as text, in which NaN is NaN; or the error."""
    path.write_text(text)
    try:
        log = perflog.read(path)
    except perflog.errors.InputError as error:
        return {"error": str(error)}
    return {name: str(log.arrow(name).to_pylist()) for name in TABLES}


@given(
    first=st.lists(st.sampled_from(list(LINES)), min_size=3, max_size=12),
    second=st.lists(st.sampled_from(list(LINES)), min_size=3, max_size=12),
)
def test_a_log_is_read_as_if_it_were_alone(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    texts = ["".join(LINES[name].format(k=k) for k, name in enumerate(log)) for log in (first, second)]
    with pytest.MonkeyPatch.context() as patch:
        forget(patch)
        alone = told(folder / "run.txt", texts[1])
        forget(patch)
        told(folder / "other.txt", texts[0])
        assert told(folder / "run.txt", texts[1]) == alone


def speed_run(source: str = SOURCE, evaluations_first: bool = False, first: int = 1) -> str:
    lines = [STEP.format(k=k, t=100 * k + first, a=f"{100 + first}.{k}") for k in range(1, 9)]
    evaluation = EVALUATION.format(k=0, v="10.82", t=0, a="nan")
    return f"{RULE}{source}{RULE}" + "".join([evaluation, *lines] if evaluations_first else [*lines, evaluation])


@pytest.mark.parametrize(
    "other",
    [
        speed_run(),
        speed_run(first=2),
        speed_run(evaluations_first=True),
        speed_run(SOURCE + "print('step 5')\n"),
        speed_run(SOURCE + RULE + "# another file\n"),
        "".join(STEP.format(k=k, t=100 * k, a="100.0") for k in range(1, 9)),
    ],
)
def test_runs_of_a_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """The same lines, in another order, behind another source, or behind a source that goes on."""
    alone = told(tmp_path / "run.txt", speed_run())
    assert alone["steps"].count("step_time_s") == 8
    forget(monkeypatch)
    told(tmp_path / "other.txt", other)
    assert told(tmp_path / "run.txt", speed_run()) == alone


def test_the_second_log_of_a_campaign_is_scanned_once_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted: list[bool] = []
    original = TemplateDiscovery._shows

    def counted(self: TemplateDiscovery, *arguments: object) -> bool:
        accepted.append(original(self, *arguments))  # type: ignore[arg-type]
        return accepted[-1]

    monkeypatch.setattr(TemplateDiscovery, "_shows", counted)
    for k in range(3):
        told(tmp_path / f"run{k}.txt", speed_run(first=k))
    assert accepted == [True, True]
