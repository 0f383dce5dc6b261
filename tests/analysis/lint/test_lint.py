"""Each lint rule finds the fault in a log that was spoiled for it, and nothing in a clean log."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.metrics_logs import by_hand
from support.rendered_logs import (
    CLEAN,
    FLOP,
    KERNELS,
    Change,
    Records,
    changed,
    event,
    late,
    log,
    moe,
    moe_with,
    pipeline,
    plain,
    profile,
    summarised,
    sweep,
    text,
    where,
)

from perflog.analysis.lint import COLUMNS, RULES, SEVERITIES, Finding, findings, lint
from perflog.log import Log, combined
from perflog.metrics import Options, Tables
from perflog.tables.schema import TABLES


def codes(format: str, records: Records, **options: Any) -> dict[str, str]:
    """Severity of each code that is found."""
    return {f.code: f.severity or "" for f in findings(log(format, records), Options(**options))}


def only_finding(format: str, records: Records, code: str, **options: Any) -> Any:
    """The only finding of that code."""
    (finding,) = [f for f in findings(log(format, records), Options(**options)) if f.code == code]
    return finding


# --- clean logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", CLEAN)
def test_nothing_is_found_in_a_clean_log(format: str) -> None:
    clean = log(format, CLEAN[format]())
    assert clean.line_account["unread"] == 0
    table = lint(clean)
    assert tuple(table.columns) == COLUMNS
    assert table.to_dict("records") == []


@examples(10)
@given(seed=st.integers(0, 10_000))
def test_no_noise_of_a_clean_log_is_an_error_or_a_warning(seed: int) -> None:
    assert set(codes("moe_layer", moe(steps=24, seed=seed)).values()) <= {"note"}


def test_several_clean_runs_are_clean_together() -> None:
    assert codes("moe_layer", [*moe(8), *moe(16), *moe(32)]) == {}


# --- each rule ------------------------------------------------------------------------------------------------------


def every(change: Callable[[dict[str, Any]], Any]) -> Change:
    return lambda _, v: v.update(change(v))


def more(v: dict[str, Any]) -> dict[str, Any]:
    return {"amount": 260 + v["remote"]}


def last_left_out(k: int, _: dict[str, Any]) -> bool:
    return k not in (22, 23)


def slow_rank(_: int, v: dict[str, Any]) -> None:
    v.update(wait=v["wait"] * (4 if v["rank"] == 1 else 1))


def other_half(k: int, v: dict[str, Any]) -> None:
    """The second stage's first layer is the rest of the first stage's last."""
    if k % 4 == 2:
        v.update(layer=0, calls=16, avg=v["time"] / 16)


def less(name: str, ms: float) -> Change:
    """No multiple of the clock tick in two steps of three: a time from another clock was subtracted."""
    return lambda k, v: v.update({name: round(v[name] - ms * (1 + k / 977) * (k % 3 > 0), 6)})


def subtracted() -> Records:
    spoiled = changed(moe(), "step", less("forward", 0.1234567))
    return summarised(spoiled)


def fast(v: dict[str, Any]) -> dict[str, Any]:
    backward = round(event(v["backward"] / 11), 6)
    time = round(event(v["forward"] + backward + 0.06), 6)
    return {"backward": backward, "step_time": time, "tflops": FLOP * 1e-9 / time}


def wide(v: dict[str, Any]) -> dict[str, Any]:
    time = round(event(v["step_time"] + 0.5), 6)
    return {"step_time": time, "tflops": FLOP * 1e-9 / time}


def sweep_wide() -> Records:
    """The first run of three has a gap in its steps."""
    return changed(sweep(), "step", lambda k, v: v.update(step_time=v["step_time"] + 2) if k < 40 else None)


def as_model(records: Records, printed: str) -> Records:
    """All model printouts replaced by one."""
    return [(n, {**v, "text": printed} if n is None and v["text"].startswith("  (") else v) for n, v in records]


SHORT = {"linear2_backward": 3.0, "gemm2_backward": 2.9}
STEP = (("gemm", 10, 4e-3), ("softmax", 5, 2e-3))
VALIDATION = (("norm", 60, 2e-3),)
NUMBERED = {f"step {k}": (1, 0.06, STEP) for k in range(3)}
FOUR = (("gemm", 40, 4e-3), ("softmax", 20, 2e-3))  # four steps


def torn() -> Records:
    """The two ranks of the last step write at once: headers, then layers, two on a line, then two line feeds."""
    records = pipeline()
    at = [i for i, (name, _) in enumerate(records) if name in ("header", "layer")][-6:]
    pairs = [(records[at[k]], records[at[k + 3]]) for k in range(3)]
    lines = [plain("".join(text("pipeline_layers", [r])[:-1] for r in pair)) for pair in pairs]
    return [*records[: at[0]], *(x for line in lines for x in (line, plain())), *records[at[-1] + 1 :]]


def ranges(**more: Any) -> Records:
    named = {k.replace("_", " "): v for k, v in more.items()}
    return profile({**NUMBERED, **named}, (("gemm", 30, 4e-3), ("softmax", 15, 2e-3), ("rest", 1000, 1e-3)))


SPOILED: dict[str, tuple[str, Callable[[], Records], str]] = {
    "identity-fails": ("moe_layer", lambda: moe_with("step", where(7, tflops=39.5)), "error"),
    "parts-exceed-whole": ("moe_layer", lambda: moe_with("step", where(7, forward=11.5)), "error"),
    "summary-window": ("moe_layer", lambda: summarised(moe(), first=30), "note"),
    "summary-unexplained": ("moe_layer", lambda: changed(moe(), "summary", where(0, step_time=20.5)), "warning"),
    "windows-differ": ("moe_layer", lambda: [*moe(), *summarised(moe(16), first=30)], "warning"),
    "total-below-steps": ("pipeline_layers", lambda: changed(pipeline(), "elapsed", where(0, elapsed=11.5)), "note"),
    "time-impossible": ("training_sweep", lambda: changed(sweep(), "step", where(7, forward=-1.0)), "error"),
    "warm-up": ("moe_layer", lambda: moe_with("step", late(3, last=0)), "note"),
    "outliers": ("moe_layer", lambda: moe_with("step", late(1.3, 20, 21)), "note"),
    "drift": ("moe_layer", lambda: moe_with("step", late(1.03, 20)), "warning"),
    "cold-start-differs": ("training_sweep", lambda: changed(sweep(shared=True), "step", late(3, last=0)), "note"),
    "backward-short": ("moe_layer", lambda: moe_with("step", every(fast)), "warning"),
    "step-gap": ("moe_layer", lambda: moe_with("step", every(wide)), "note"),
    "gap-differs": ("training_sweep", sweep_wide, "warning"),
    "phase-gap": ("moe_layer", lambda: moe_with("linear2_backward", every(lambda _: dict(SHORT))), "note"),
    "layers-cover-little": (
        "pipeline_layers",
        lambda: changed(pipeline(), "layer", every(lambda v: {"time": v["time"] / 4, "avg": v["avg"] / 4})),
        "note",
    ),
    "time-subtracted": ("moe_layer", subtracted, "warning"),
    "steps-merged": ("pipeline_layers", lambda: changed(pipeline(), "step", lambda k, _: k > 0), "warning"),
    "steps-averaged": (
        "pipeline_layers",
        lambda: changed(pipeline(), "step", lambda _, v: v["batch"] % 2 == 1),
        "note",
    ),
    "steps-repeated": ("moe_layer", lambda: moe_with("step", where(8, step=7)), "warning"),
    "steps-missing": ("training_sweep", lambda: changed(sweep(), "step", lambda k, _: k not in (7, 8)), "warning"),
    "steps-unpaired": ("pipeline_layers", lambda: changed(pipeline(), "header", last_left_out), "note"),
    "run-stopped": ("moe_layer", lambda: [r for r in moe() if r[0] not in ("summary", "end")], "warning"),
    "nominal-work": ("moe_layer", lambda: moe_with("block_info", every(more)), "warning"),
    "mfu-above-1": ("moe_layer", moe, "error"),
    "same-model": ("training_sweep", lambda: as_model(sweep(), "  (expert): Linear(0)"), "warning"),
    "no-experts": ("training_sweep", lambda: as_model(sweep(), "  (mlp): Linear(0)"), "warning"),
    "no-rank": ("moe_layer", lambda: changed(moe(), "forward", every(lambda v: {"label": ""})), "note"),
    "ranks-incomplete": ("moe_layer", lambda: changed(moe(), "forward", lambda k, _: k != 7), "warning"),
    "rank-stands-out": ("moe_layer", lambda: changed(moe(), "wait", slow_rank), "warning"),
    "layer-split": (
        "pipeline_layers",
        lambda: changed(pipeline(), "layer", other_half),
        "note",
    ),
    "row-inconsistent": ("nvprof", lambda: changed(profile(), "row", where(0, min=5e-3)), "error"),
    "first-call": ("nvprof", lambda: changed(profile(), "row", where(0, max=0.039, min=1e-5)), "warning"),
    "calls-unlisted": (
        "nvprof",
        lambda: changed(ranges(), "first_row", lambda k, v: v.update(name="sync") if k == 1 else None),
        "note",
    ),
    "name-twice": ("nvprof", lambda: profile(kernels=(*KERNELS, ("copy", 10, 1e-4))), "note"),
    "range-holds-more": (
        "nvprof",
        lambda: ranges(loss=(24, 0.2, (*FOUR, ("loss", 24, 5e-4))), backward=(4, 0.2, FOUR)),
        "warning",
    ),
    "range-host-time": ("nvprof", lambda: ranges(layer=(4, 1e-4, FOUR)), "warning"),
    "ranges-overlap": ("nvprof", lambda: profile({"all": (1, 1.0, KERNELS), "inner": (1, 1.0, KERNELS)}), "note"),
    "profile-cut": ("nvprof", lambda: profile(NUMBERED, FOUR), "warning"),
    "range-outlier": ("nvprof", lambda: ranges(step_3=(1, 0.2, (*STEP, *VALIDATION))), "note"),
    "unread-lines": ("moe_layer", lambda: [*moe(), plain("nobody reads these words")], "note"),
    "torn-lines": ("pipeline_layers", torn, "note"),
}  # fmt: skip
GIVEN: dict[str, dict[str, Any]] = {"mfu-above-1": {"peak_tflops": 30}}


ALSO = {  # what follows from the same flaw
    "windows-differ": {"summary-window"},
    "warm-up": {"summary-window"},
    "cold-start-differs": {"summary-unexplained", "warm-up"},
    "gap-differs": {"summary-unexplained", "step-gap"},
    "steps-repeated": {"steps-missing", "summary-unexplained"},
    "steps-missing": {"summary-unexplained", "run-stopped"},
    "steps-unpaired": {"layer-split"},
    "no-experts": {"same-model"},
}


def test_each_rule_has_a_spoiled_log() -> None:
    elsewhere = {
        "diverged",
        "steps-skipped",
        "mfu-other-device",
        "few-steps",
        "coarse-times",
        "derived-times",
        "figures-disagree",
        "unread-figures",
        "guessed-rows",
        "failed-requests",
        "recordings-disagree",
        "open-interval",
        "no-success",
        "program-error",
        "costly-warnings",
    } | {code for code, rule in RULES.items() if "events" in rule.needs}
    assert list(SPOILED) == [
        code for code in RULES if code not in elsewhere
    ]  # test_lint_frameworks, test_losses, test_traces, test_lint_lines, test_line_stamps


@pytest.mark.parametrize("steps", [1, 5, 6])
def test_fewer_than_six_steps_judge_nothing(steps: int) -> None:
    made = by_hand("steps", [{"step": step, "step_time_s": 1.0 + step / 100} for step in range(steps)])
    named = {**made, "runs": made["runs"].assign(log="run.txt", log_sha256="0", first_line=1, last_line=steps)}
    told = [finding.message for finding in findings(named) if finding.code == "few-steps"]
    noun = "step time" if steps == 1 else "step times"
    assert told == ([f"{steps} {noun}: neither warm-up nor scatter can be judged"] if steps < 6 else [])


@cache
def of_spoiled(code: str) -> tuple[Finding, ...]:
    """All that is found in the log that was spoiled for a rule."""
    format, records, _ = SPOILED[code]
    return tuple(findings(log(format, records()), Options(**GIVEN.get(code, {}))))


@pytest.mark.parametrize("code", SPOILED)
def test_what_is_wrong_is_found_and_nothing_else(code: str) -> None:
    severities = {finding.code: finding.severity for finding in of_spoiled(code)}
    assert severities.get(code) == SPOILED[code][2]
    assert severities.keys() == {code} | ALSO.get(code, set())


@pytest.mark.parametrize("code", SPOILED)
def test_evidence_names_the_lines_of_each_run(code: str) -> None:
    for finding in of_spoiled(code):
        assert finding.evidence["lines"].keys() == finding.lines.keys(), "a number of a rule must not hide them"


def test_a_run_has_the_same_findings_alone_and_among_others() -> None:
    """Rules ask whole tables which runs they concern; sums of all runs at once must not decide anything."""
    codes = ("parts-exceed-whole", "no-rank", "ranks-incomplete", "steps-unpaired", "phase-gap", "nominal-work")
    logs = [log(format, records()) for format, records, _ in (SPOILED[code] for code in codes)]

    def told(subject: Log) -> set[str]:
        return {repr((f, f.evidence)) for f in findings(subject) if f.code in codes}

    assert told(combined(logs)) == set[str]().union(*map(told, logs))
    assert len(told(combined(logs))) == len(codes)


# --- messages and evidence -----------------------------------------------------------------------------------------


def test_an_outlier_of_a_quiet_run_is_told_with_the_limit_that_it_passes() -> None:
    """10 MAD are 1 ms; a step of 1.01 s passes that, but not 1.02 times the median."""
    times = [1.0 + 1e-4 * (-1) ** step for step in range(40)] + [1.01, 1.05]
    values = [{"step": step, "step_time_s": time_s} for step, time_s in enumerate(times)]
    tables = by_hand("steps", values)
    tables["runs"] = tables["runs"].assign(log="quiet.txt")
    (finding,) = (f for f in findings(Tables(tables), Options()) if f.code == "outliers")
    assert finding.message.startswith("1 steady step beyond 1.02 times the median of 1 s: step 41 1.05 s; ")


def test_a_finding_says_where_and_how_much() -> None:
    records = moe_with("step", where(7, tflops=39.5))
    line = next(n for n, x in enumerate(text("moe_layer", records).splitlines(), 1) if "39.50" in x)
    finding = only_finding("moe_layer", records, "identity-fails")
    assert finding.first_line == line
    assert finding.evidence["lines"] == {finding.run: [line]}
    assert finding.evidence["printed"] == 39.5
    assert finding.evidence["of"] == 40
    assert f"line {line} prints tflops 39.50" in finding.message
    assert finding.action == RULES["identity-fails"].action


def test_a_hidden_phase_may_be_longer_than_the_step() -> None:
    longer = {"process": 2125.5, "gate": 0.5, "exchange": 2120.0, "select": 4.0, "dispatch": 1.0}
    assert codes("moe_layer", moe_with("process", where(0, **longer))) == {}


def test_a_window_that_includes_the_warm_up_is_a_warning() -> None:
    finding = only_finding("moe_layer", moe_with("step", late(3, last=0)), "summary-window")
    assert finding.severity == "warning"
    assert "of all 40 steps" in finding.message
    assert finding.evidence["step_time"]["off"] == pytest.approx(2 / 40, rel=0.05)


def test_same_models_that_take_different_times_are_a_note() -> None:
    records = changed(
        as_model(sweep(), "  (expert): Linear(0)"), "step", lambda k, v: late(2)(k, v) if k >= 80 else None
    )
    assert only_finding("training_sweep", records, "same-model").severity == "note"


def test_repeats_of_one_setting_are_no_same_model() -> None:
    assert "same-model" not in codes("moe_layer", [*moe(seed=1), *moe(seed=2)])


def test_a_run_that_ends_with_fewer_steps_than_its_siblings() -> None:
    runs = [*moe(), *moe(16), *moe(32), *moe(64, steps=25)]
    finding = only_finding("moe_layer", runs, "run-stopped")
    assert (finding.severity, finding.evidence["steps"], finding.evidence["usual"]) == ("note", 25, 40)


def test_a_given_warm_up_is_no_finding() -> None:
    assert "warm-up" not in codes("moe_layer", moe_with("step", late(3, last=0)), warmup=1)


def test_no_peak_no_utilisation() -> None:
    assert codes("moe_layer", moe(), peak_tflops=50) == {}
    assert "1.31 times the peak 30 TFLOP/s" in only_finding("moe_layer", moe(), "mfu-above-1", peak_tflops=30).message


def test_a_printed_mfu_above_1() -> None:
    frame = log("moe_layer", moe())
    tables = {name: frame.table(name) for name in TABLES}
    tables["steps"]["mfu"] = np.where(tables["steps"]["step"] == 3, 1.5, 0.4)
    (finding,) = findings(tables)
    assert (finding.code, finding.severity, finding.evidence["mfu"]) == ("mfu-above-1", "error", 1.5)


def test_findings_come_run_by_run_the_most_severe_first() -> None:
    records = [*moe_with("step", late(1.3, 20, 21)), *moe_with("step", where(7, tflops=39.5))]
    ordered = findings(log("moe_layer", records))
    order = [(f.run, SEVERITIES.index(f.severity or "note")) for f in ordered]
    assert order == sorted(order)


def test_the_table_has_the_columns_of_the_schema_and_the_action() -> None:
    table = lint(log("moe_layer", moe_with("step", where(7, tflops=39.5))))
    assert " ".join(table.columns) == "run line part code severity message first_line evidence action"
    assert table["line"].tolist() == table["first_line"].tolist()
    evidence = [json.loads(x) for x in table["evidence"]]
    assert all(e["count"] >= 1 and e["lines"] for e in evidence)


def test_lint_is_a_pure_function() -> None:
    spoiled = log("moe_layer", moe_with("step", late(1.3, 20, 21)))
    assert lint(spoiled).equals(lint(spoiled))


def test_an_empty_log_has_no_findings() -> None:
    assert len(lint({})) == 0


def test_a_warm_up_of_all_steps_leaves_no_finding() -> None:
    assert codes("moe_layer", moe_with("step", late(1.3, 20, 21)), warmup=10**6) == {}


def test_layers_are_not_compared_with_lines_of_several_steps() -> None:
    """What such a line prints may be the sum of its steps or their mean."""
    little = changed(pipeline(), "layer", every(lambda v: {"time": v["time"] / 4, "avg": v["avg"] / 4}))
    assert "layers-cover-little" in codes("pipeline_layers", little)
    merged = changed(little, "step", lambda _, v: v["batch"] % 2 == 1)
    assert "layers-cover-little" not in codes("pipeline_layers", merged)


def test_a_line_of_one_step_among_lines_of_many_is_told_by_what_the_others_cover() -> None:
    """`line 5 covers 1 step, so its time covers 1 step` says nothing."""
    two_apart = changed(pipeline(), "step", lambda _, v: v["batch"] % 2 == 1 or v["batch"] == 4)
    finding = only_finding("pipeline_layers", two_apart, "steps-merged")
    assert finding.message.startswith("3 lines of 7: ") and finding.message.endswith(" covers 1 step, most lines 2")


def test_the_evidence_of_a_finding_is_what_json_holds() -> None:
    """The first lines of each run, each once, and their number; no nan."""
    numbers = {"x": np.float64("nan"), "y": [math.inf, np.int64(3)], "z": {4: 2.5}}
    found = Finding("a", "m", {"a": np.array([9, 3, 3, *range(10, 60)]), "b": [7]}, numbers, "note", "code")
    assert found.evidence == {
        "lines": {"a": [3, 9, *range(10, 8 + 10)], "b": [7]}, "count": 53, "x": None, "y": [None, 3], "z": {"4": 2.5},
    }  # fmt: skip
    assert (found.first_line, repr(found)) == (3, "<Finding note code, run a, line 3: m>")
    assert (
        found == Finding("a", "m", {"a": [1]}, {}, "note", "code") != Finding("a", "m", {"a": [1]}, {}, "note", "other")
    )
    assert "nan" not in json.dumps(found.evidence, allow_nan=False)
