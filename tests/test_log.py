"""Logs as objects: what is read is what is stored, selected and given out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from support.paths import TESTS
from support.reading import sample

import perflog
from perflog.errors import InputError, StoreError, UsageError
from perflog.ingestion import workers
from perflog.ingestion.bulk import IngestTask, ingest_log, ingest_many
from perflog.log import RunKey
from perflog.opening import find_runs
from perflog.parsing.input.log_names import LogName
from perflog.tables.schema import TABLES, arrow_schema
from perflog.tables.sink import IngestResult, MemorySink
from perflog.tables.store import Store

DATA = TESTS / "data"
NAMES = ("moe_layer", "moe_layer_early", "training_sweep", "nvprof", "pipeline_layers")
MOE, EARLY, SWEEP, NVPROF, PIPELINE = (str(DATA / f"{name}.txt") for name in NAMES)
ALL = (MOE, EARLY, SWEEP, NVPROF, PIPELINE)


@pytest.fixture(scope="module")
def sweep() -> perflog.Log:
    return perflog.read(SWEEP)


@pytest.fixture(scope="module")
def everything() -> perflog.Log:
    return perflog.read(*ALL)


def test_a_log_has_runs_and_tables(sweep: perflog.Log) -> None:
    assert sweep.runs.label.tolist() == ["naive gpt2 16", "fastermoe gpt2 16"]
    assert sweep.table_names == ["runs", "steps", "summaries", "lines"]
    assert sweep.table("steps").groupby("run").size().tolist() == [12, 12]
    assert sweep.table("steps").step_time_s[0] == pytest.approx(1.110413330)


def test_a_log_shows_itself_in_one_line_and_reads_no_table_for_it(sweep: perflog.Log) -> None:
    tables: list[str] = []

    def fetch(name: str, *_: object) -> pa.Table:
        tables.append(name)
        return sweep.arrow(name)

    log = perflog.Log(fetch)
    assert repr(log) == f"<perflog.Log: 2 runs of 1 log: {SWEEP}>"
    assert tables == ["runs"]


def test_a_notebook_shows_the_overview(sweep: perflog.Log) -> None:
    page = sweep._repr_html_()
    assert page.startswith(perflog.overview(sweep)._repr_html_())
    assert page.count("<figure") == 2 and page.count("<script>") == 1
    assert "fastermoe gpt2 16" in page and "<table" in page and "forward" in page
    assert "<b>" not in perflog.Log(renamed(sweep, "<b>bold</b>").fetch)._repr_html_()


def test_options_of_the_overview(sweep: perflog.Log) -> None:
    assert perflog.overview(sweep, warmup=3).figures != perflog.overview(sweep, warmup=5).figures
    with pytest.raises(UsageError, match="did you mean `warmup`"):
        perflog.overview(sweep, warmpu=3)  # type: ignore[arg-type]  # what is tried


def test_a_notebook_shows_many_runs_as_a_table(sweep: perflog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.log._RUNS_OF_OVERVIEW", 1)
    page = sweep._repr_html_()
    assert "fastermoe gpt2 16" in page and "<table" in page
    settings = sweep.settings
    varying = [name for name in settings.columns[2:] if settings[name].nunique(dropna=False) > 1]
    assert varying and all(f"setting: {name}" in page for name in varying)
    assert "<b>" not in perflog.Log(renamed(sweep, "<b>bold</b>").fetch)._repr_html_()


def renamed(log: perflog.Log, label: str) -> MemorySink:
    """The log's runs, all with this label."""
    kept = MemorySink()
    rows = [row | {"label": label} for row in log.arrow("runs").to_pylist()]
    kept.add("runs", pa.Table.from_pylist(rows, arrow_schema("runs")))
    return kept


def test_settings_are_columns_of_nullable_types(everything: perflog.Log) -> None:
    settings, runs = everything.settings, everything.runs
    assert settings.run.tolist() == runs.run.tolist()
    for (_, row), config in zip(settings.iterrows(), runs.config, strict=True):
        printed = json.loads(config) if isinstance(config, str) else {}
        assert {name: row[name] for name in settings.columns[2:] if row[name] is not pd.NA} == {
            name: value for name, value in printed.items() if value is not None and name not in ("run", "label")
        }
    assert {str(kind) for kind in settings.dtypes} <= {"Int64", "Float64", "boolean", "string", "object"}


def test_ingest_stores_logs_and_gives_them_back(tmp_path: Path) -> None:
    log = perflog.ingest(SWEEP, MOE, store=tmp_path / "store", label="base")
    assert {key.log for key in log.run_keys} == {SWEEP, MOE}
    assert all((key.label or "").startswith("base") for key in log.run_keys)
    assert log.line_account == perflog.load(tmp_path / "store").line_account
    assert len(perflog.ingest(SWEEP, store=tmp_path / "store")) == 2  # of three logs' runs in the store
    with pytest.raises(UsageError, match="no log is named"):
        perflog.ingest(store=tmp_path)


def test_ingest_stores_what_it_can_read(tmp_path: Path) -> None:
    missing = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    with pytest.raises(InputError, match="no such file") as caught:
        perflog.ingest(missing[0], SWEEP, missing[1], store=tmp_path / "store")
    assert caught.value.__notes__ == ["2 of 3 logs could not be read"]
    assert len(perflog.load(tmp_path / "store")) == 2


def test_the_public_names_stay_the_same_after_use() -> None:
    assert dir(perflog) == sorted(perflog.__all__)
    for name in perflog.__all__:
        assert getattr(perflog, name) is not None
    assert dir(perflog) == sorted(perflog.__all__)


@pytest.mark.parametrize("name", ALL)
def test_every_line_is_accounted_for(name: str) -> None:
    lines = perflog.read(name).line_account
    assert lines["total"] == Path(name).read_bytes().count(b"\n")
    assert lines["total"] == lines["read"] + lines["context"] + lines["unread"]
    assert lines["unread"] == 0


def test_pandas_gets_nullable_types(everything: perflog.Log) -> None:
    want = {"int64": "Int64", "int32": "Int32", "float64": "Float64", "text": "string", "word": "string"}
    for name, columns in TABLES.items():
        table = everything.table(name)
        assert {c: str(t) for c, t in table.dtypes.items()} == {c.name: want[c.type] for c in columns}, name


def test_arrow_gets_the_schema(everything: perflog.Log) -> None:
    for name in TABLES:
        table = everything.arrow(name)
        assert table.schema.equals(arrow_schema(name)), name
        table.validate(full=True)


def test_rows_are_sorted_by_run_line_and_part(everything: perflog.Log) -> None:
    order = {run: i for i, run in enumerate(everything.runs.run)}
    for name in everything.table_names:
        table = everything.table(name)
        keys = list(zip(table.run.map(order), table.line, table.part, strict=True))
        assert keys == sorted(keys), name


def test_a_table_without_rows_is_empty(sweep: perflog.Log) -> None:
    assert len(sweep.table("events")) == 0
    assert sweep.arrow("events").schema.equals(arrow_schema("events"))


def test_an_unknown_table_is_named_with_the_nearest(sweep: perflog.Log) -> None:
    with pytest.raises(UsageError, match="did you mean `steps`"):
        sweep.arrow("stpes")


@pytest.mark.parametrize("ref", ["2", "#2", 2, "fastermoe gpt2 16", "#fastermoe gpt2 16", f"{SWEEP}#2"])
def test_a_run_is_found_by(ref: str | int, sweep: perflog.Log) -> None:
    one = sweep.select(ref)
    assert one.runs.label.tolist() == ["fastermoe gpt2 16"]
    assert len(one.table("steps")) == 12
    assert set(one.table("steps").run) == {one.runs.run[0]}


def test_a_run_is_found_by_its_id_and_the_begin_of_it(everything: perflog.Log) -> None:
    for run in everything.runs.run:
        sha, _, index = run.partition("-")
        for ref in (run, f"{sha[:6]}-{index}"):
            assert everything.select(ref).runs.run.tolist() == [run]


def test_an_id_is_no_beginning_of_another() -> None:
    ids = [f"aaaabbbbcccc-{i}" for i in range(1, 13)]
    rows = [{"run": i, "line": 1, "part": 0, "log_sha256": "a" * 64, "index": n} for n, i in enumerate(ids, 1)]
    for row in rows:
        row |= {"first_line": 1, "last_line": 1}
    kept = MemorySink()
    kept.add("runs", pa.Table.from_pylist(rows, arrow_schema("runs")))
    log = perflog.Log(kept.fetch)
    assert [r.id for r in log.match("aaaabbbbcccc-1")] == ["aaaabbbbcccc-1"]
    assert [r.id for r in log.match("aaaa-1")] == ["aaaabbbbcccc-1"]
    assert len(log.match("aaaa")) == 12


@pytest.mark.parametrize("ref", ["3", "", "nothing", "#0", f"{SWEEP}#9"])
def test_a_run_that_is_not_there(ref: str, sweep: perflog.Log) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        sweep.select(ref)


def test_a_wrong_label_is_told_with_the_nearest(sweep: perflog.Log) -> None:
    with pytest.raises(UsageError, match="did you mean `naive gpt2 16`"):
        sweep.select("naive gpt2 61")


def test_a_number_of_no_run_is_told_with_the_numbers_that_there_are(sweep: perflog.Log) -> None:
    for ref in ("#9", f"{SWEEP}#9", f"{SWEEP}:9"):
        with pytest.raises(UsageError) as caught:
            sweep.select(ref)
        assert caught.value.help == f"there are: {', '.join(f'#{k}' for k in range(1, len(sweep) + 1))}"


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("moe_laye.txt", "did you mean `moe_layer.txt`?"),
        ("moe_l", "did you mean `moe_layer.txt`?"),
        ("xyz", "there are: moe_layer.txt, "),
    ],
)
def test_a_wrong_name_of_a_log_among_several_is_told_with_the_logs(name: str, help: str) -> None:
    with pytest.raises(UsageError) as caught:
        perflog.find_runs(f"reference:{name}")
    assert caught.value.help.startswith(help)


def test_a_reference_to_several_runs_lists_them(sweep: perflog.Log) -> None:
    with pytest.raises(UsageError, match="matches 2 runs") as caught:
        sweep.select(sweep.runs.run[0][:5])
    assert all(run in str(caught.value) for run in sweep.runs.run)


def test_one_run_is_read_by_its_place_or_label() -> None:
    second = perflog.read(f"{SWEEP}#2")
    assert second.runs.label.tolist() == ["fastermoe gpt2 16"]
    assert perflog.read(f"{SWEEP}#fastermoe gpt2 16").runs.equals(second.runs)
    assert second.line_account["total"] < perflog.read(SWEEP).line_account["total"]


def test_a_log_named_twice_is_read_once(tmp_path: Path) -> None:
    assert len(perflog.read(SWEEP, SWEEP)) == 2
    assert len(perflog.read(f"{SWEEP}#2", SWEEP)) == 2
    copy = tmp_path / "copy.txt"
    copy.write_bytes(Path(SWEEP).read_bytes())
    log = perflog.read(SWEEP, copy)
    assert len(log) == 2
    assert log.warnings == [f"{copy}: the same bytes as {SWEEP}, kept once"]


def test_several_logs_are_one(everything: perflog.Log) -> None:
    assert len(everything) == 6
    assert everything.runs.log.unique().tolist() == list(ALL)
    assert everything.line_account["total"] == sum(Path(n).read_bytes().count(b"\n") for n in ALL)


def test_labels_and_formats_are_given() -> None:
    assert perflog.read(MOE, label="base").runs.label.tolist() == ["base"]
    many = perflog.read(SWEEP, label="base")
    assert many.runs.label.tolist() == ["base#naive gpt2 16", "base#fastermoe gpt2 16"]
    assert len(many.match("base")) == 2
    assert perflog.read(MOE, format="moe_layer").runs.format.tolist() == ["moe_layer"]
    with pytest.raises(InputError):
        perflog.read(MOE, format="nvprof")
    with pytest.raises(UsageError, match="did you mean `nvprof`"):
        perflog.read(MOE, format="nvporf")


def test_something_must_be_named() -> None:
    with pytest.raises(UsageError):
        perflog.read()


# --- the store --------------------------------------------------------------------------------------------------


def same(a: perflog.Log, b: perflog.Log) -> None:
    by = ["run", "line", "part"]
    for name in TABLES:
        one, two = (x.table(name).sort_values(by, kind="stable").reset_index(drop=True) for x in (a, b))
        pd.testing.assert_frame_equal(one, two)


def test_what_is_saved_is_loaded(everything: perflog.Log, tmp_path: Path) -> None:
    everything.save(tmp_path)
    loaded = perflog.load(tmp_path)
    same(everything, loaded)
    assert loaded.line_account == everything.line_account
    assert loaded.row_counts == everything.row_counts
    assert sorted(Store(tmp_path).logs()) == sorted(everything.runs.log_sha256.str[:16].unique())


def test_ingesting_is_saving(sweep: perflog.Log, tmp_path: Path) -> None:
    for _ in range(2):  # the second time changes nothing
        assert isinstance(ingest_log(LogName.parse(SWEEP), IngestTask(str(tmp_path))), IngestResult)
        same(sweep, perflog.load(tmp_path))


def test_saving_again_replaces(sweep: perflog.Log, tmp_path: Path) -> None:
    perflog.read(SWEEP, label="old").save(tmp_path)
    sweep.save(tmp_path)
    same(sweep, perflog.load(tmp_path))


def test_only_whole_logs_are_saved(sweep: perflog.Log, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only some of the runs"):
        sweep.select(2).save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_run_of_a_store(everything: perflog.Log, tmp_path: Path) -> None:
    everything.save(tmp_path)
    loaded = perflog.load(tmp_path)
    assert len(loaded.select("fastermoe gpt2 16").table("steps")) == 12
    assert loaded.select("fastermoe gpt2 16").line_account == perflog.read(f"{SWEEP}#2").line_account
    assert loaded.select(f"{SWEEP}#1").runs.label.tolist() == ["naive gpt2 16"]


def test_the_default_store(sweep: perflog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="there is no store here"):
        perflog.load()
    with pytest.raises(StoreError, match="there is no store here"):
        perflog.find_runs(".perflog")  # as perflog track does without a name
    sweep.save(".perflog")
    assert len(perflog.load()) == 2
    monkeypatch.setenv("PERFLOG_STORE", "elsewhere")
    with pytest.raises(StoreError, match="elsewhere"):
        perflog.load()


def test_a_file_comes_before_the_store(
    everything: perflog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    everything.save("store")
    Path("naive gpt2 16").write_bytes(Path(MOE).read_bytes())
    assert find_runs("naive gpt2 16", "store").runs.format.tolist() == ["moe_layer"]
    assert find_runs("fastermoe gpt2 16", "store").runs.format.tolist() == ["training_sweep"]
    with pytest.raises(InputError, match="no such file"):
        find_runs("no.txt", "store")
    with pytest.raises(UsageError, match="there is no run"):
        find_runs("no", "store")


def test_logs_are_read_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.ingestion.workers.START_SECONDS", 0)
    told: list[int] = []
    names = [*ALL, str(tmp_path / "none.txt")]
    outcomes = list(
        ingest_many([LogName.parse(name) for name in names], IngestTask(str(tmp_path / "store")), 2, told.append)
    )
    assert [str(name) for name, _ in outcomes] == names
    assert isinstance(outcomes[-1][1], InputError)
    assert outcomes[-1][1].where == names[-1]
    assert sum(told) <= sum(Path(n).stat().st_size for n in ALL)
    same(perflog.load(tmp_path / "store"), perflog.read(*sorted(ALL)))


@pytest.mark.parametrize("logs_of_batch", [1, 3, 4])
def test_logs_read_in_processes_are_those_that_one_process_reads(
    logs_of_batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a file that is no log, and one that is there twice: in one batch of a process, or in two."""
    monkeypatch.setattr("perflog.ingestion.workers.START_SECONDS", 0)
    monkeypatch.setattr("perflog.ingestion.workers.cores", lambda: 2)
    monkeypatch.setattr("perflog.ingestion.batches._BATCHES", 1)
    monkeypatch.setattr("perflog.ingestion.in_memory._MOST_LOGS", logs_of_batch)
    for number, text in enumerate([sample("moe_layer"), b"nothing\n", sample("nvprof"), sample("moe_layer")] * 2):
        (tmp_path / f"{number}.txt").write_bytes(text.replace(b"x", b"y") if number > 3 else text)
    here = perflog.read(tmp_path)
    with workers.allowed():
        there = perflog.read(tmp_path)
    assert there.warnings == here.warnings
    assert len(there.warnings) == 3  # of two copies, and of two files that are no logs
    same(there, here)
    with workers.allowed(), pytest.raises(InputError, match="nothing in it is recognised"):
        perflog.read(tmp_path / "1.txt", tmp_path / "2.txt")


def test_a_log_read_twice_is_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a log that contradicts itself late makes ingest() do: the first rows must not stay.
    import perflog.ingestion.pipeline
    from perflog.ingestion.pipeline import ingest

    def twice(source, sink, *args, **kwargs):  # type: ignore[no-untyped-def]
        ingest(source, sink, *args, **kwargs)
        return ingest(source, sink, *args, **kwargs)

    monkeypatch.setattr(perflog.ingestion.pipeline, "ingest", twice)
    assert isinstance(ingest_log(LogName.parse(SWEEP), IngestTask(str(tmp_path))), IngestResult)
    same(perflog.load(tmp_path), perflog.read(SWEEP))
    kept = MemorySink()
    kept.add("runs", perflog.read(SWEEP).arrow("runs"))
    assert kept.reset().fetch("runs").num_rows == 0


def test_the_package_shows_what_it_has() -> None:
    assert {"read", "load", "Log", "PerflogError", "__version__"} <= set(dir(perflog))
    assert perflog.__version__
    with pytest.raises(AttributeError, match="no attribute 'raed'"):
        perflog.raed  # noqa: B018


def test_reading_needs_no_pandas() -> None:
    code = (
        "import sys, perflog; log = perflog.read(sys.argv[1]);"
        "log.arrow('steps'); log.line_account; log.select(1).row_counts;"
        "mine = [m for m in ('pandas', 'rich', 'matplotlib') if m in sys.modules]; print(mine)"
    )
    done = subprocess.run([sys.executable, "-c", code, SWEEP], capture_output=True, text=True, cwd=DATA.parent.parent)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_reference_runs_are_at_hand() -> None:
    every = perflog.reference()
    assert {r.log for r in every.run_keys} >= {"moe_layer.txt", "training_sweep.txt", "nvprof.txt"}
    assert len(find_runs("reference:")) == len(every)
    assert find_runs("reference:moe_layer.txt#2").run_keys[0].index == 2
    assert len(find_runs("reference:training_sweep.txt")) == 9
    with pytest.raises(UsageError, match="there is no run"):
        find_runs("reference:no such log")


def test_the_rows_of_many_files_are_in_memory_once(tmp_path: Path) -> None:
    """They stand in the order of the runs, whichever file was read first: no table of a Log is a sorted copy."""
    for rank in range(40):  # enough that several are read together
        loads = [[float(10 * rank + expert) for expert in range(4)]]
        (tmp_path / f"table_iter1_rank{rank}.log").write_text(f"0:{loads}\n1:{loads}\n")
    log = perflog.read(tmp_path)
    runs = [key.id for key in log.run_keys]
    assert len(runs) == 40 and log.arrow("loads")["run"].to_pylist() == [run for run in runs for _ in range(8)]
    first, again = (log.arrow("loads")["amount"].chunk(0).buffers()[1] for _ in range(2))
    assert first.address == again.address
    assert log.arrow("loads").num_rows == sum(log.select(run).arrow("loads").num_rows for run in runs)


def test_runs_whose_rows_alternate_are_sorted() -> None:
    """A sink leaves rows as they are where to move them would cut them into many parts."""
    for count in (2, 400):
        sink = MemorySink()
        for part in range(2):
            one = [{"run": f"{k % 2}-1", "line": 2 * k + part, "part": 0, "key": "a"} for k in range(count)]
            sink.add("values", pa.Table.from_pylist(one, arrow_schema("values")))
        sink.runs = ["1-1", "0-1"]
        log = perflog.Log(sink.fetch, [RunKey(run, None, "log", run, 1) for run in sink.runs])
        rows = log.arrow("values")
        assert rows["run"].to_pylist() == ["1-1"] * count + ["0-1"] * count
        lines = rows["line"].to_pylist()
        assert lines == [*sorted(lines[:count]), *sorted(lines[count:])]
