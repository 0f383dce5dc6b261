"""The comparison on one screen: at most 25 lines of 80 columns, with figures computed another way."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from shlex import split
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from support.field_logs import needs_corpus
from support.figure_rows import figure_row
from support.made_traces import event
from support.megatron_logs import megatron_log
from support.metrics_logs import runs, tables
from support.paths import SHARED
from support.seeds import lines as lines_of

import perflog
from perflog.analysis.compare.comparison import OTHER_WORK
from perflog.analysis.compare.headline import BestSide
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.sides import Case
from perflog.analysis.compare.verdicts import OTHER_SETTING, VerdictRule
from perflog.analysis.lint.losses import DIVERGED
from perflog.cli.main import main
from perflog.output.presenters import compare_screen as module
from perflog.output.presenters.compare_screen import _table, screen
from perflog.output.screens import HEIGHT, WIDTH
from perflog.output.terminal import columns_of

MOE = "reference:moe_layer.txt"
EARLY = "reference:moe_layer_early.txt"
SWEEP = "reference:training_sweep.txt"
PIPELINE = "reference:pipeline_layers.txt"
TRACES = [
    str(SHARED / f"corpus/torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{k}.json.gz") for k in (0, 1)
]
FOLDERS = [str(SHARED / "campaigns/nanogpt_fp8" / name) for name in ("baseline", "this_pr")]


def shown(*arguments: str) -> list[str]:
    done = CliRunner().invoke(main, ["compare", *arguments])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) <= HEIGHT and max(map(len, lines)) <= WIDTH
    return lines


@pytest.mark.parametrize(
    "sides",
    [
        (f"{MOE}#1", f"{MOE}#4"), (MOE, "--by", "num_local_experts"), (SWEEP, "--by", "system"),
        tuple(f"{SWEEP}#{k}" for k in range(1, 4)), (f"{MOE}#1", EARLY), (PIPELINE, PIPELINE),
    ],
)  # fmt: skip
def test_it_fits_one_screen_and_ends_with_the_next_command(sides: tuple[str, ...]) -> None:
    lines = shown(*sides)
    _, command = "\n".join(lines).split("\nNext: ")
    if len(lines) < HEIGHT or not command.startswith("the same command with --all"):
        assert split(command.replace("\\\n", "")) == ["perflog", "compare", *sides, "--all"]


def test_the_next_command_keeps_the_options_of_which_figures_depend() -> None:
    words = [EARLY, EARLY, "--warmup", "2", "--threshold", "0.05", "--store", "no such store"]
    _, command = "\n".join(shown(*words, "--require", "step_time")).split("\nNext: ")
    told = split(command.replace("\\\n", ""))
    assert sorted(told) == sorted(["perflog", "compare", *words, "--all"]) and told[-1] == "--all"


def test_a_command_that_is_too_long_is_told_by_what_to_add() -> None:
    sides = [f"{'x' * 90}{k}={MOE}#{k}" for k in range(1, 4)]
    assert shown(*sides)[-1] == "Next: the same command with --all shows everything"


@needs_corpus
def test_two_traces_fit_one_screen() -> None:
    lines = shown(*TRACES)
    assert lines[0].startswith("B against A: +0.67 % step time (-17.5 .. +22.9 %), not known to differ:")
    assert "  compute                               105 ms ->   136 ms   +30.8 ms" in lines
    assert "Where the +29.8 ms of all kernels went (not known to differ)" in lines
    assert "  ! too few steps to judge warm-up or scatter (A, B)" in lines
    assert "Differ: files.rank 0 -> 1" in lines  # A and B name the files


@pytest.mark.skipif(not Path(FOLDERS[0]).is_dir(), reason="needs the folders of runs in ../shared/campaigns")
def test_two_folders_of_repeats() -> None:
    text = " ".join(" ".join(shown(*FOLDERS)).split())
    assert text.startswith("B against A: -1.3 % elapsed (-1.4 .. -1.2 %), faster: improvement; 13 runs per side A")
    assert "The verdict is about elapsed: the format of these logs declares it as the result of a run" in text
    assert "elapsed 80.73 s 79.68 s -1.3 % faster" in text  # the authors: 80.729 and 79.685 s


def test_the_change_is_that_of_the_printed_steps() -> None:
    """Medians of the lines without the first step, as `step_time = 21.300 ms` prints them."""
    text = "\n".join(lines_of("moe_layer"))
    of_runs = [
        re.findall(r"STEP-\d+: step_time = (\S+) ms, foward_time = (\S+),", run)
        for run in text.split("[Benchmark]")[1:]
    ]
    steps, forwards = ([median(float(step[i]) for step in of_runs[k][1:]) for k in (0, 3)] for i in (0, 1))
    lines = shown(f"{MOE}#1", f"{MOE}#4")
    assert lines[0].startswith(f"B against A: {100 * (steps[1] / steps[0] - 1):+.1f} % step time (")
    assert f"Where the +{steps[1] - steps[0]:.2f} ms of the median step_time went" in lines
    change, share = forwards[1] - forwards[0], (forwards[1] - forwards[0]) / (steps[1] - steps[0])
    values = f"{forwards[0]:.1f} ms ->  {forwards[1]:.1f} ms   +{change:.2f} ms    {100 * share:.0f} %"
    assert f"  forward                              {values}" in lines


def test_the_untimed_part_of_a_phase_is_in_the_tree() -> None:
    """`moe_forward` minus its phases, medians over the steps of the mean rank: 2.84 ms of run 1, 8.39 ms of run 4."""
    rows = tables("moe_layer")["phases"]
    rows = rows[rows["step"] >= 1]
    left = []
    for run in (runs("moe_layer")[0], runs("moe_layer")[3]):
        of_run = rows[(rows["run"] == run) & ((rows["phase"] != "gemm_scatter") | (rows["occurrence"] == 1))]
        medians = of_run.groupby(["phase", "step"])["time_s"].mean().groupby("phase").median()
        left.append(medians["moe_forward"] - medians[["prepare_forward", "gemm1_forward", "gemm_scatter"]].sum())
    (line,) = [line for line in shown(f"{MOE}#1", f"{MOE}#4") if "moe_forward (untimed)" in line]
    assert [float(value) for value in re.findall(r"[\d.]+(?= ms)", line)][:2] == pytest.approx(
        [t * 1e3 for t in left], rel=0.01
    )


def test_sides_with_different_numbers_of_runs_are_named(tmp_path: Path) -> None:
    for side, times in (("old", (20, 21, 20)), ("new", (18, 19))):
        (tmp_path / side).mkdir()
        for number, time in enumerate(times):
            steps = [(i, number + 3 - i / 100, time + i % 3) for i in range(60)]
            lines = [f"iter {i}: loss {loss:.4f}, time {ms}.00ms, mfu 1.00%\n" for i, loss, ms in steps]
            (tmp_path / side / f"{number}.log").write_text("".join(lines))
    text = " ".join(shown(str(tmp_path / "old"), str(tmp_path / "new")))
    assert "; 3 runs of A, 2 of B; " in text and " steps each" in text
    whole = CliRunner().invoke(main, ["compare", str(tmp_path / "old"), str(tmp_path / "new"), "--all"]).output
    assert "n: two numbers are of old / of new" in whole


def test_other_work_comes_first() -> None:
    lines = shown(f"{MOE}#1", EARLY)
    assert lines[0] == "Not the same work: backward / forward is 1.1 and 0.097."
    assert lines[1].startswith("B against A: +6.5 % step time (")


def test_sides_without_a_common_figure_are_told(tmp_path: Path) -> None:
    """The last loss is on both sides, the time of a step on one: no verdict."""
    sides = []
    for name, line in (
        ("timed", "iter {i}: loss {x:.4f}, time 20.00ms, mfu 1.00%"),
        ("losses", "{{'loss': {x:.4f}, 'epoch': {i}.0}}"),
    ):
        path = tmp_path / f"{name}.log"
        path.write_text("".join(line.format(i=i, x=3 - i / 10) + "\n" for i in range(9)))
        sides.append(str(path))
    assert "The sides have no metric in common for a verdict." in shown(*sides)


def test_one_value_a_side_is_told_as_such(tmp_path: Path) -> None:
    """The time of a whole run has no error: +37 % beside `slower` is not "not known to differ"."""
    lines = shown(f"{MOE}#1", f"{MOE}#4")
    place = lines.index("One run per side does not show run-to-run variation; with two runs per side,")
    assert (
        lines[place + 1] == "    this change is significant if runs vary by less than 7.5 % (step_time mean)"
    )  # not cut
    total = next(line for line in lines if line.startswith("  step_time total"))
    assert total.endswith("+37.0 %  one value per side")
    for name, seconds in (("a.json", 100), ("b.json", 150)):
        (tmp_path / name).write_text(f'{{"train_runtime": {seconds}.5, "train_loss": 2.0}}\n')
    lines = shown(str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert ", one value per side: inconclusive; 1 run per side" in " ".join(lines[:2])
    assert "a second run per side would show the run-to-run variation" in lines


def test_the_same_bytes_on_both_sides_are_told() -> None:
    lines = shown(EARLY, EARLY)
    assert lines[0] == "The same bytes are on both sides: a run is compared with itself."
    assert not any(line.startswith("Where") for line in lines)


def test_many_sides_have_a_line_each_below_the_best() -> None:
    lines = shown(MOE, "--by", "num_local_experts")
    assert lines[0] == "Best: 8, step time 21.29 ms; next 16 (+6.0 %)"
    assert " ".join(lines[1:3]).split() == (
        "4 values of num_local_experts, 1 configuration: step_time: exploratory regression".split()
    )
    assert lines[3].split() == ["num_local_experts", "step", "time", "against", "A"]
    assert lines[4].split() == ["A", "8", "21.29", "ms"]
    changes = [line.split()[4:6] for line in lines if line.endswith("slower")]
    assert changes == [["+6.0", "%"], ["+10.2", "%"], ["+37.2", "%"]]
    assert any(line.startswith("Where the +7.92 ms of the median step_time in D went") for line in lines)


def test_a_sweep_with_a_tie_and_a_value_whose_runs_failed(tmp_path: Path) -> None:
    """Batches of 4 and 8 differ by 0.6 %, their repeats by 2 %; with 16 no run gets to its first step."""
    levels = {1: (1000, 1010), 4: (850, 867), 8: (856, 871), 16: (0, 0)}
    for micro, run in product(levels, (0, 1)):
        times = [levels[micro][run] + step % 3 for step in range(20)] if levels[micro][run] else []
        text = megatron_log({"micro_batch_size": micro, "seed": run}, times)
        (tmp_path / f"{micro}-{run}.log").write_text(text, encoding="utf-8")
    lines = shown(str(tmp_path), "--by", "micro_batch_size")
    text = " ".join(" ".join(lines).split())
    assert text.startswith(
        "Best: 4, step time 859.5 ms; not known to differ from it: 8 (+0.58 %); "
        "it would take more than 100 runs per side to decide"
    )
    (failed,) = [line.split() for line in lines if line.startswith("  D  16")]
    assert failed == ["D", "16", "-", "not", "in", "2", "runs"]


def test_names_of_long_configurations_stay_apart(tmp_path: Path) -> None:
    names = ("tensor_model_parallel_size", "pipeline_model_parallel_size")
    for micro, tensor, pipe in product((1, 2, 4), (1, 2), (1, 2)):
        settings = {"micro_batch_size": micro} | dict(zip(names, (tensor, pipe), strict=True))
        text = megatron_log(settings, [100 * tensor + 10 * pipe - micro + 0.1 * (step % 3) for step in range(20)])
        (tmp_path / f"{micro}{tensor}{pipe}.log").write_text(text, encoding="utf-8")
    lines = shown(str(tmp_path), "--by", "micro_batch_size")
    assert len(lines) <= 25
    cases = {" ".join(line.split()[:2]) for line in lines if line.endswith("  faster")}
    assert cases == {f"tens…ize={tensor}, pipe…ize={pipe}" for tensor, pipe in product((1, 2), (1, 2))}


@pytest.mark.parametrize(
    "sides", [(MOE, "--by", "num_local_experts"), (f"{MOE}#1", f"{MOE}#4"), (SWEEP, "--by", "system")]
)
def test_a_comparison_fits_a_narrow_terminal(sides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    by = sides[2:]
    compared = perflog.compare(*(sides[:1] if by else sides), by=by)
    monkeypatch.setattr("perflog.output.screens.width", lambda: 60)
    lines = screen(compared, sides)
    assert len(lines) <= 25
    assert [line for line in lines if columns_of(line) > 60] == []
    assert any(line.endswith("slower") for line in lines)
    assert not any("…" in line for line in lines if line.startswith(("Best", "B against", "Next")))


def test_many_values_in_many_configurations_fit_the_screen(tmp_path: Path) -> None:
    for micro, tensor in product(range(1, 13), (1, 2)):
        settings = {"micro_batch_size": micro, "tensor_model_parallel_size": tensor}
        text = megatron_log(settings, [800 - 9 * micro + tensor + 0.1 * (step % 3) for step in range(12)])
        (tmp_path / f"{micro}-{tensor}.log").write_text(text, encoding="utf-8")
    lines = shown(str(tmp_path), "--by", "micro_batch_size")
    assert len(lines) <= 25
    assert lines[1].startswith("Best in tensor_model_parallel_size=2: 12, ")
    assert "Sides: A=1, B=2, C=3, D=4, E=5, F=6, G=7, H=8, I=9, J=10 and 2 more" in lines
    told = sum(bool(re.match(r"  tensor_mod…allel_size=[12]  [B-J]  ", line)) for line in lines)
    assert f"  and {11 * 2 - told} more: --all" in lines


def test_values_of_several_settings_are_sides_and_the_best_is_named(tmp_path: Path) -> None:
    for micro, tensor in product((1, 2), (1, 2)):
        settings = {"micro_batch_size": micro, "tensor_model_parallel_size": tensor}
        text = megatron_log(settings, [800 - 90 * micro + 25 * tensor + 0.1 * (step % 3) for step in range(12)])
        (tmp_path / f"{micro}-{tensor}.log").write_text(text, encoding="utf-8")
    by = ("--by", "micro_batch_size", "--by", "tensor_model_parallel_size")
    lines = shown(str(tmp_path), *by)
    assert lines[0] == "Best: 2/1, step time 645.1 ms; next 2/2 (+3.9 %)"
    assert [line.split()[1] for line in lines if line.endswith(("slower", "faster"))] == ["1/2", "2/1", "2/2"]
    based = shown(str(tmp_path), *by, "--base", "2/1")
    assert next(line.split() for line in based if line.startswith("  A  ")) == ["A", "2/1", "645.1", "ms"]


def test_several_configurations_have_a_best_side_each() -> None:
    text = " ".join(" ".join(shown(SWEEP, "--by", "system")).split())
    assert "Sides: A=naive, B=fastermoe, C=mix_moe" in text
    assert "Best in model=gpt2: fastermoe, step time 262.2 ms; not known to differ from it: naive (+0.13 %)" in text
    assert "Best in model=bert: naive, step time 198.1 ms; next mix_moe (+25.4 %)" in text
    assert "Also differ, and may be the cause: nvshmem_ranks" in text


def ddp_rank(rank: int, waits_from: int, late: int) -> list[dict[str, Any]]:
    """Steps of a gemm and a reduction, for which both ranks wait; rank 1's gemms take longer by `late`; times in us."""
    work: list[dict[str, Any]] = []
    for k in range(24):
        begin, number = 1000 * k, 2 * k + 1
        ready = begin + 500 + late * (rank == 1)
        stages = (("gemm", begin, ready), ("ncclDevKernel_AllReduce_Sum_bf16", ready, begin + waits_from + 60))
        work.append(event("user_annotation", f"ProfilerStep#{k}", begin - 5, waits_from + 70))
        for i, (name, start, end) in enumerate(stages):
            work += [
                event("cuda_runtime", "cudaLaunchKernel", begin - 4 + i, 1, correlation=number + i),
                event("kernel", name, start, end - start, 7, correlation=number + i, device=rank, stream=7)
                | {"pid": 0},
            ]
        work.append(event("cuda_runtime", "cudaStreamSynchronize", begin + 2, waits_from + 60, correlation=1000 + k))
    return work


def test_a_rank_that_binds_one_side_alone_comes_before_the_waiting_of_the_others(tmp_path: Path) -> None:
    for name, late in (("even", 0), ("late", 200)):
        (tmp_path / name).mkdir()
        for rank in (0, 1):
            trace = {"baseTimeNanoseconds": 17 * 10**17, "distributedInfo": {"rank": rank, "world_size": 2}}
            trace["traceEvents"] = ddp_rank(rank, 500 + late, late)
            (tmp_path / name / f"rank{rank}.json").write_text(json.dumps(trace))
    text = " ".join(" ".join(shown(str(tmp_path / "even"), str(tmp_path / "late"))).split())
    assert "Causes: the bottleneck is rank 1 (costs 200 us), and was" in text
    for sides in (("even", "even"), ("late", "late")):
        assert "bottleneck is rank" not in "".join(shown(*(str(tmp_path / side) for side in sides)))


def test_where_little_of_a_name_would_be_left_the_values_of_the_base_are() -> None:
    """A line has 80 columns. The values of the base follow from the others; no number is cut."""

    def lines(width: int) -> list[str]:
        row = ("a long name of a metric", "b" * width, "n" * width, "c" * width, "note")
        return [line.rstrip() for line in _table(("metric", "A", "new", "change"), [row])]

    assert lines(4)[1] == "  a long name of a metric  bbbb  nnnn    cccc  note"
    assert lines(18)[1].startswith("  a long…etric  bbb")
    titles, row = lines(21)
    assert titles.split() == ["metric", "new", "change"]
    assert row == f"  a long name of a metric  {'n' * 21}  {'c' * 21}  note"


# --- sentences and lines by themselves --------------------------------------------------------------------------------


def compared(*rows: FigureRow, **fields: Any) -> Any:
    """A comparison of two sides with this row as its headline."""
    usual: dict[str, Any] = {
        "leading": rows[0] if rows else None, "is_pair": True, "verdict": "regression", "rule": VerdictRule(),
        "sides": ("old", "new"), "cases": (Case("", (("r0",), ("r1",))),), "by": (), "conclusion": "slower",
        "same_bytes": False, "objections": (), "best": (), "headlines": list(rows), "one_sided": (), "causes": (),
        "setting_records": (), "doubts": {}, "finding_records": (), "diverged": False, "row_records": list(rows),
    }  # fmt: skip
    return SimpleNamespace(**usual | fields)


SLOWER: dict[str, Any] = {"change": 0.25, "change_low": 0.2, "change_high": 0.3, "p_holm": 0.001, "side_value": 1.25,
                          "verdict": "regression"}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "fields", "sentences"),
    [
        (None, {}, ["The sides have no metric in common for a verdict."]),
        (
            SLOWER, {},
            ["B against A: +25.0 % step time (+20.0 .. +30.0 %), slower: regression; 3 runs, 10 steps per side"],
        ),
        (
            SLOWER, {"verdict": OTHER_SETTING},
            ["B against A: +25.0 % step time (+20.0 .. +30.0 %), slower; 3 runs, 10 steps per side"],
        ),
        (
            {"error": math.nan, "change": 0.25, "advice": "run it again", "scope": "steps"}, {},
            ["B against A: +25.0 % step time, one value per side: regression; 3 runs, 10 steps per side",
             "run it again"],
        ),
        (SLOWER | {"advice": "run it again", "scope": "steps"}, {}, None),
        (SLOWER, {"is_pair": False, "sides": ("a", "b", "c")}, ["3 sides, 1 configuration: slower"]),
        (SLOWER, {"is_pair": False, "by": ("lr", "bs")}, ["2 values of lr/bs, 1 configuration: slower"]),
    ],
)  # fmt: skip
def test_the_sentence_of_the_headline(row: dict[str, Any] | None, fields: Any, sentences: list[str] | None) -> None:
    of = compared(*([] if row is None else [figure_row(**row)]), **fields)
    found = list(module.headline_sentences(of, ("A", "B")))
    assert found == sentences if sentences else len(found) == 1
    objection = SimpleNamespace(sentence="Not the same work.", head="")
    of.objections = (objection,)
    assert next(iter(module.verdict_sentences(of, ("A", "B")))) == "Not the same work."


def best(side: str, *others: tuple[str, float], level: Sequence[str] = (), case: str = "", **more: Any) -> BestSide:
    rows = tuple(figure_row(base=side, side=name, change=change, **more) for name, change in others)
    return BestSide(case, side, rows, tuple(level))


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (best("a", ("b", 0.1), ("c", 0.2)), "Best: a, step time 1 s; next b (+10.0 %)"),
        (best("a", ("b", 0.1), case="moe"), "Best in moe: a, step time 1 s; next b (+10.0 %)"),
        (
            best("a", ("b", 0.01), ("c", 0.2), level=["b"]),
            "Best: a, step time 1 s; not known to differ from it: b (+1.0 %)",
        ),
        (
            best("a", ("b", 0.01), level=["b"], error=math.nan),
            "Best: a, step time 1 s; the others, of one value each: b (+1.0 %)",
        ),
        (
            best("a", ("b", 0.01), level=["b"], advice="run it again"),
            "Best: a, step time 1 s; not known to differ from it: b (+1.0 %); run it again",
        ),
        (
            best("a", ("b", 0.01), level=["b"], advice="run it again", scope="steps"),
            "Best: a, step time 1 s; not known to differ from it: b (+1.0 %)",
        ),
        (
            best("a", *((name, 0.01) for name in "bcdef"), level=list("bcdef")),
            "Best: a, step time 1 s; not known to differ from it: b (+1.0 %), c (+1.0 %), d (+1.0 %) and 2 more",
        ),
    ],
)
def test_the_best_side(of: BestSide, sentence: str) -> None:
    assert list(module.best_sentences(compared(best=[of]))) == [sentence]
    other = SimpleNamespace(head=OTHER_WORK, sentence="")
    assert not list(module.best_sentences(compared(best=[of], same_bytes=True)))
    assert not list(module.best_sentences(compared(best=[of], objections=(other,))))
    assert (
        len(list(module.best_sentences(compared(best=[of], objections=(SimpleNamespace(head="", sentence=""),))))) == 1
    )


def test_of_many_configurations_the_sides_that_are_best_are_counted() -> None:
    many = [best(side, ("z", 0.1), case=f"case {n}") for n, side in enumerate("aabac")]
    sentences = list(module.best_sentences(compared(best=many)))
    assert len(sentences) == 4 and sentences[3] == "Best of 5 configurations: a in 3, b in 1, c in 1"
    assert len(list(module.best_sentences(compared(best=many[:3])))) == 3


def setting(name: str, old: Any, new: Any) -> Any:
    return SimpleNamespace(setting=name, values={"old": old, "new": new})


@pytest.mark.parametrize(
    ("records", "fields", "lines"),
    [
        ((), {}, []),
        ((setting("lr", 1, 2), setting("files.size", 5, 6)), {}, ["Differ: lr 1 -> 2"]),
        ((setting("files.rank", 0, 1), setting("lr", 1, 2)), {}, ["Differ: lr 1 -> 2; files.rank 0 -> 1"]),
        ((setting("lr", 1, 2), setting("bs", 1, None)), {"is_pair": False}, ["Differ: lr, bs"]),
        ((setting("lr", 1, 2), setting("bs", 1, 2)), {"is_pair": False, "by": ("lr",)},
         ["Also differ, and may be the cause: bs"]),
        ((setting("lr", 1, 2),), {"is_pair": False, "by": ("lr",)}, []),
    ],
)  # fmt: skip
def test_settings_that_differ(records: tuple[Any, ...], fields: dict[str, Any], lines: list[str]) -> None:
    assert list(module._settings(compared(setting_records=records, **fields))) == lines


def test_metrics_that_the_side_lacks() -> None:
    one_sided = [SimpleNamespace(metric=name, on=on) for name, on in (("a", "base"), ("b", "side"), ("a", "base"))]
    assert list(module._vanished(compared(one_sided=one_sided))) == ["Not on B: a"]
    assert list(module._vanished(compared(one_sided=one_sided, is_pair=False))) == []
    assert list(module._vanished(compared(one_sided=one_sided[1:2]))) == []


@pytest.mark.parametrize(
    ("doubts", "notes", "fields", "lines"),
    [
        ({}, 0, {}, []),
        ({}, 2, {}, ["No warnings, 2 notes: --all"]),
        ({"drift": ("it drifts", ("old",))}, 0, {}, ["Do not trust", "  ! it drifts (A)"]),
        ({"drift": ("it drifts", ("old", "new"))}, 1, {},
         ["Do not trust", "  ! it drifts (A, B)", "  1 more finding: --all"]),
        ({"comparison-other-work": ("in the verdict", ())}, 0, {}, []),
        ({DIVERGED: ("it is NaN", ())}, 0, {"diverged": True}, []),
        ({DIVERGED: ("it is NaN", ())}, 0, {}, ["Do not trust", "  ! it is NaN"]),
        ({str(n): (f"finding {n}", ()) for n in range(6)}, 1, {},
         ["Do not trust", *(f"  ! finding {n}" for n in range(4)), "  3 more findings: --all"]),
    ],
)  # fmt: skip
def test_what_makes_sides_hard_to_compare(
    doubts: dict[str, Any], notes: int, fields: dict[str, Any], lines: list[str]
) -> None:
    findings = [SimpleNamespace(code=code) for code in [*doubts, *(f"note {n}" for n in range(notes))] * 2]
    assert list(module._doubts(compared(doubts=doubts, finding_records=findings, **fields))) == lines


@pytest.mark.parametrize(
    ("named", "sides", "text"),
    [
        ("", "ab", ""), ("b", "abc", " (B)"), ("abcd", "abcde", " (A, B, C, D)"), ("abcde", "abcdef", " (5 sides)"),
        ("abcde", "abcde", " (all 5 sides)"), ("l", "abcdefghijkl", " (1 side)"),
    ],
)  # fmt: skip
def test_sides_of_a_finding(named: str, sides: str, text: str) -> None:
    """Ten sides have a letter."""
    assert module._where(list(named), compared(sides=tuple(sides))) == text
