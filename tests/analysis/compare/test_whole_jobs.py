"""A restarted job is one run of a comparison: each of its steps once, as it was done last."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.analysis.compare import baselines
from perflog.analysis.compare.sides import named_sides
from perflog.analysis.compare.whole_jobs import attempts_in_one_log, attempts_left_out, with_whole_jobs
from perflog.metrics.run_tables import Tables
from perflog.tables.arrow import one_of


def attempt(first: int, last: int, begin: int, step_time: float = 1.0, extra: str = "") -> str:
    """The lines of steps with their time of day from second `begin` on; a later attempt loads a checkpoint before."""
    lines = [f"2026-11-30 10:{begin // 60:02d}:{begin % 60:02d} world_size: 8\n"]
    if first > 1:
        lines.append(f"2026-11-30 10:{begin // 60:02d}:{begin % 60:02d} Loaded checkpoint at step {first - 1}\n")
    for n, step in enumerate(range(first, last + 1), 1):
        second = begin + n
        moment = f"2026-11-30 10:{second // 60:02d}:{second % 60:02d}"
        time = step_time + step % 3 / 1000
        lines.append(f"{moment} step {step} loss {9 - step / 20:.3f} step_time {time:.3f} s tag {begin}.5\n")
        if step % 20 == 0:
            lines.append(f"{moment} Saved checkpoint at step {step}\n")
    return "".join(lines) + extra


OUT = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
FIRST, SECOND = attempt(1, 47, 0, extra=f"Traceback (most recent call last):\n{OUT}"), attempt(41, 80, 100)


def made(folder: Path, **texts: str) -> perflog.Log:
    for name, text in texts.items():
        (folder / f"{name}.log").write_text(text)
    return perflog.read(folder)


def joined(log: perflog.Log) -> perflog.Log:
    return with_whole_jobs(log, Tables(log))


def test_each_step_of_a_job_counts_once_as_it_was_done_last(tmp_path: Path) -> None:
    log = made(tmp_path, a=FIRST + SECOND)
    assert len(log) == 2
    job = joined(log)
    (run,) = job.run_keys
    assert run == log.run_keys[0]
    steps = job.table("steps")
    assert steps["step"].tolist() == list(range(1, 81)) and set(steps["run"]) == {run.id}
    tags = job.table("values").query("key == 'tag'")
    assert tags["value"].tolist() == [0.5] * 40 + [100.5] * 40
    assert steps["printed_ns"].isna().all() and log.table("steps")["printed_ns"].notna().all()  # they jump
    assert job.row_counts["steps"] == 80 and Tables(job).counts("steps") == {run.id: 80}


def test_the_job_went_on_after_a_failure_and_loads_its_own_checkpoint(tmp_path: Path) -> None:
    log = made(tmp_path, a=FIRST + SECOND)
    assert {"failures", "milestones"} <= log.row_counts.keys()
    job = joined(log)
    assert not len(job.table("failures")) and "restore" not in set(job.table("milestones")["kind"])
    assert joined(job) is job
    failed = joined(made(tmp_path, a=FIRST + attempt(41, 80, 100, extra=f"Traceback (most recent call last):\n{OUT}")))
    assert len(failed.table("failures")) == 1  # of the last attempt


def test_attempts_of_several_logs_and_other_runs_stay(tmp_path: Path) -> None:
    log = made(tmp_path, a=FIRST, b=SECOND)
    assert attempts_in_one_log(log, Tables(log)) == {} and joined(log) is log
    first, second = (key.id for key in log.run_keys)
    assert attempts_left_out(log, Tables(log)) == {second: first}  # of 47 and 40 steps
    both = made(tmp_path, a=FIRST + SECOND, b=attempt(1, 80, 1000, 2.0))
    job = joined(both)
    assert [key.log for key in job.run_keys] == [str(tmp_path / name) for name in ("a.log", "b.log")]
    assert Tables(job).counts("steps") == dict.fromkeys((key.id for key in job.run_keys), 80)
    assert job.select(job.run_keys[1]).table("steps")["step_time_s"].min() == 2.0
    assert len(job.select(job.run_keys[0]).table("steps")) == 80


def test_attempts_on_other_numbers_of_ranks_are_not_joined(tmp_path: Path) -> None:
    """Their steps are of other work: those of most steps compare."""
    fewer = SECOND.replace("world_size: 8", "world_size: 4")
    log = made(tmp_path, a=FIRST + fewer)
    first, second = (key.id for key in log.run_keys)
    assert attempts_in_one_log(log, Tables(log)) == {} and attempts_left_out(log, Tables(log)) == {second: first}
    assert joined(log) is log
    (tmp_path / "b.log").write_text(attempt(1, 80, 0, 1.1))
    found = perflog.compare(str(tmp_path / "a.log"), str(tmp_path / "b.log"))
    assert found.warnings[0] == "a: not compared, other attempts of the job of a: a#2"


def test_rows_and_columns_that_are_asked_for(tmp_path: Path) -> None:
    job = joined(made(tmp_path, a=FIRST + SECOND))
    (run,) = (key.id for key in job.run_keys)
    rows = job.some_rows("values", {"key": one_of("tag"), "run": one_of(run)}, "value")
    assert rows.column_names == ["run", "line", "part", "value"] and len(rows) == 80
    assert job.some_columns("steps", "loss").column_names == ["run", "loss"]
    assert len(job.some_rows("steps", {"run": one_of("other")})) == 0
    assert Tables(job).rows("layers")["run"].tolist() == []


@pytest.mark.parametrize("restarted", ["a", "ab"])
def test_a_comparison_takes_the_whole_job(tmp_path: Path, restarted: str) -> None:
    sides = []
    for name, time in (("a", 1.0), ("b", 1.1)):
        whole = attempt(1, 80, 0, time)
        text = attempt(1, 47, 0, time) + attempt(41, 80, 100, time) if name in restarted else whole
        (tmp_path / f"{name}.log").write_text(text)
        sides.append(str(tmp_path / f"{name}.log"))
    found = perflog.compare(*sides)
    row = found.rows.query("metric == 'step_time' and statistic == 'median'").iloc[0]
    assert row.change == pytest.approx(0.1, abs=0.01)
    assert (row.base_runs, row.side_runs) == (1, 1)
    assert any("2 attempts of a count as one run" in text for text in found.warnings)


def test_of_attempts_in_several_logs_the_longest_compare(tmp_path: Path) -> None:
    """Attempts are no repeats: the comparison has one run for each side."""
    for side, time in (("x", 1.0), ("y", 1.1)):
        (tmp_path / side).mkdir()
        failed = f"Traceback (most recent call last):\n{OUT}"
        (tmp_path / side / "a.log").write_text(attempt(1, 22, 0, time, extra=failed))
        (tmp_path / side / "b.log").write_text(attempt(21, 45, 100, time, extra=failed) + attempt(41, 80, 200, time))
    found = perflog.compare(str(tmp_path / "x"), str(tmp_path / "y"))
    assert found.warnings[:2] == (
        "x: not compared, other attempts of the job of b: a",
        "x: 2 attempts of b count as one run, each of its steps once",
    )
    row = found.rows.query("metric == 'step_time' and statistic == 'median'").iloc[0]
    assert (row.base_runs, row.side_runs, row.base_steps) == (1, 1, 60)


def test_a_restarted_job_is_one_run_of_a_baseline(tmp_path: Path) -> None:
    """Its attempts are no repeats, and none of them is the base of the job itself."""
    store = tmp_path / "store"
    texts = [FIRST + SECOND, attempt(1, 80, 7), attempt(1, 80, 9, 1.02)]
    logs = [tmp_path / f"{n}.log" for n in range(len(texts))]
    for path, text in zip(logs, texts, strict=True):
        path.write_text(text)
    perflog.ingest(*logs, store=store)
    baselines.set_baseline("main", [key.id for key in perflog.load(store).run_keys], store=store)
    new = tmp_path / "new.log"
    new.write_text(attempt(1, 80, 11, 1.01))
    base = baselines.resolve("main", named_sides([str(new)]), store).base.log
    assert [base.row_counts["steps"], len(base)] == [240, 3]
    base = baselines.resolve("main", named_sides([str(logs[0])]), store).base.log
    assert [base.row_counts["steps"], len(base)] == [160, 2]
