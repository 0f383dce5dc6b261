"""Logs on object storage are read as files are: one, a folder, a glob; an S3 server of the tests stands for all."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from support.commands import DATA, EARLY, MOE, SWEEP, run
from support.paths import ROOT
from support.s3_server import SECRET, Bucket, s3_server

import perflog
from perflog.errors import InputError
from perflog.files import remote
from perflog.ingestion.bulk import IngestTask, ingest_logs
from perflog.parsing.input.log_names import LogName, expand
from perflog.tables.schema import TABLES
from perflog.tables.sink import IngestResult
from perflog.tables.store import Store


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def bucket() -> Bucket:
    return Bucket("logs")


def expanded(*names: str) -> list[str]:
    return [str(log) for log in expand(names)]


def tables(store: Path) -> dict[str, list[dict[str, object]]]:
    """The rows of a store without the names of the logs, which differ by place."""
    made = {name: Store(store).table(name) for name in TABLES}
    made["runs"] = made["runs"].drop_columns(["log"])
    return {name: sorted(table.to_pylist(), key=repr) for name, table in made.items()}


def test_a_folder_and_a_glob_give_their_logs_sorted(bucket: Bucket) -> None:
    for key in ("run/b.txt", "run/a/z.log", "run/a/.hidden", "run/.git/x", "run/c.pt", "run/d.PNG", "run2/x.txt"):
        bucket.put(key, b"a\n")
    bucket.put("pictures/a.png", b"a")
    inside = [f"{bucket.address}/run/a/z.log", f"{bucket.address}/run/b.txt"]
    assert expanded(f"{bucket.address}/run") == expanded(f"{bucket.address}/run/") == inside
    assert expanded(f"{bucket.address.replace('s3', 'S3')}/run") == inside
    assert expanded(f"{bucket.address}/run/**") == [
        inside[0],
        inside[1],
        *(f"{bucket.address}/run/{n}" for n in ("c.pt", "d.PNG")),
    ]
    assert expanded(f"{bucket.address}/run*/*.txt") == [inside[1], f"{bucket.address}/run2/x.txt"]
    assert expanded(f"{bucket.address}/run/a/.hid*") == [f"{bucket.address}/run/a/.hidden"]
    assert expanded(f"{bucket.address}/run/*.txt#2") == [f"{inside[1]}#2"]
    assert [name.remote_size for name in expand([f"{bucket.address}/run"])] == [2, 2]
    for name, reason in (("run/*.csv", "no file matches"), ("pictures", "no logs in this folder")):
        with pytest.raises(InputError, match=reason):
            expand([f"{bucket.address}/{name}"])


def test_what_was_listed_is_not_remembered(bucket: Bucket) -> None:
    bucket.put("run/a.txt", b"a\n")
    assert len(expand([f"{bucket.address}/run"])) == 1
    bucket.put("run/b.txt", b"a\n")
    assert len(expand([f"{bucket.address}/run"])) == 2


def test_a_folder_of_logs_gives_the_tables_of_the_local_folder(bucket: Bucket, tmp_path: Path) -> None:
    for path in (MOE, EARLY, SWEEP):
        bucket.put(f"run/{Path(path).name}", Path(path).read_bytes())
    bucket.put("run/zipped.txt.gz", gzip.compress(Path(DATA / "nvprof.txt").read_bytes()))
    run("ingest", MOE, EARLY, SWEEP, DATA / "nvprof.txt", "--store", tmp_path / "local")
    run("ingest", f"{bucket.address}/run/**", "--store", tmp_path / "remote")
    assert tables(tmp_path / "remote") == tables(tmp_path / "local")
    logs = Store(tmp_path / "remote").table("runs")["log"].to_pylist()
    assert f"{bucket.address}/run/zipped.txt.gz" in logs
    before = sorted((tmp_path / "remote").glob("*/*.parquet"))
    run("ingest", f"{bucket.address}/run", "--store", tmp_path / "remote")
    assert sorted((tmp_path / "remote").glob("*/*.parquet")) == before


def test_the_ranks_of_a_run_are_one_log(bucket: Bucket, tmp_path: Path) -> None:
    folder = ROOT / "tests" / "traces"
    text = (folder / "2024_base_rank1.json").read_text("utf-8")
    (tmp_path / "local").mkdir()
    for rank in range(2):
        of_rank = text.replace('"rank": 1', f'"rank": {rank}')
        (tmp_path / "local" / f"trace_{rank}.json").write_text(of_rank)
        bucket.put(f"run/trace_{rank}.json.gz", gzip.compress(of_rank.encode()))
    bucket.put("run/trace_7.json.gz", b"damaged")
    run("ingest", tmp_path / "local", "--store", tmp_path / "store")
    run("ingest", f"{bucket.address}/run", "--store", tmp_path / "remote", code=3)
    assert Store(tmp_path / "remote").table("runs")["log"].to_pylist() == [
        f"{bucket.address}/run/trace_{{0..1}}.json.gz"
    ]
    assert tables(tmp_path / "remote")["events"] == tables(tmp_path / "store")["events"] != []


def test_many_logs_are_read_in_processes(bucket: Bucket, tmp_path: Path) -> None:
    """Fsspec has a thread, so the processes are forked from one that has none."""
    text = Path(EARLY).read_bytes()
    for number in range(30):
        bucket.put(f"many/{number}.txt", text + b"# %d\n" % number)
    words = [
        sys.executable,
        "-m",
        "perflog",
        "ingest",
        f"{bucket.address}/many",
        "--store",
        str(tmp_path),
        "--processes",
        "2",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert len(Store(tmp_path).logs()) == 30


def test_small_objects_are_fetched_several_at_once(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [LogName.parse(bucket.put(f"run/{path.name}", path.read_bytes())) for path in sorted(DATA.glob("*.txt"))]
    together = threading.Barrier(4)
    seen: list[str] = []

    def download(address: str, file: BinaryIO, path: str, check: Callable[[int], None]) -> None:
        seen.append(address)
        if len(seen) <= 4:
            together.wait(timeout=60)
        remote.download(address, file, path, check)

    monkeypatch.setattr("perflog.parsing.input.source.download", download)
    outcomes = ingest_logs(names, IngestTask(str(tmp_path)))
    assert [outcome.log for outcome in outcomes if isinstance(outcome, IngestResult)] == [str(name) for name in names]
    assert sorted(seen) == [str(name) for name in names]


def test_one_bad_object_does_not_stop_the_others(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("run/a.txt", Path(MOE).read_bytes())
    bucket.put("run/b.gz", gzip.compress(Path(EARLY).read_bytes())[:20] + b"broken")
    done = run(
        "ingest",
        f"{bucket.address}/run",
        f"{bucket.address}/missing.txt",
        "s3://nowhere/x",
        "--store",
        tmp_path,
        code=3,
    )
    assert len(Store(tmp_path).logs()) == 1
    assert f"{bucket.address}/run/b.gz: " in done.stderr
    assert f"{bucket.address}/missing.txt: no such file" in done.stderr
    assert "s3://nowhere/x: no such file" in done.stderr


def test_a_log_is_read_on_the_fly(bucket: Bucket) -> None:
    address = bucket.put("moe.txt", Path(MOE).read_bytes())
    log = perflog.read(address)
    assert log.runs["log"].tolist() == [address] * len(log)
    assert perflog.read(f"{address}#1").arrow("steps").equals(perflog.read(f"{MOE}#1").arrow("steps"))
    assert address in run("detect", address).stdout


def test_a_log_that_grows_replaces_its_earlier_state(bucket: Bucket, tmp_path: Path) -> None:
    lines = Path(MOE).read_bytes().splitlines(keepends=True)
    address = bucket.put("moe.txt", b"".join(lines[: len(lines) // 2]))
    run("ingest", address, "--store", tmp_path)
    bucket.put("moe.txt", b"".join(lines))
    run("ingest", address, "--store", tmp_path)
    assert Store(tmp_path).logs() == [perflog.read(MOE).runs["log_sha256"][0][:16]]


def test_an_object_in_several_requests_is_read_whole(bucket: Bucket) -> None:
    text = b"".join(b"%d a line\n" % number for number in range(900_000))
    address = bucket.put("large.txt", text)
    with perflog.parsing.input.source.open_source(address) as source:
        assert (source.size(), source.first_bytes(len(text))) == (len(text), text)


def test_an_object_that_changes_meanwhile_is_an_error(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    address = bucket.put("large.txt", b"a" * (remote._ONE_REQUEST + 1))
    get_file = bucket.files.get_file

    def slow(*args: object) -> None:
        get_file(*args)
        bucket.put("large.txt", b"b" * (remote._ONE_REQUEST + 1))

    monkeypatch.setattr(bucket.files, "get_file", slow)
    with pytest.raises(InputError, match="changed while it was fetched"):
        perflog.read(address)


@pytest.mark.parametrize("package", ["s3fs", "fsspec"])
def test_a_package_that_is_missing_is_named(package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; from perflog.cli.main import main; main(['detect', 's3://b/k'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 3
    assert "s3://b/k: s3:// needs a package that is not installed" in done.stderr
    assert "pip install fsspec, and s3fs for s3://" in done.stderr


def test_an_unknown_storage_is_an_error() -> None:
    with pytest.raises(InputError, match="no storage is known for this address"):
        perflog.read("nope://bucket/run.txt")


def test_credentials_are_in_no_message(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: str
) -> None:
    bucket.put("a.txt", Path(MOE).read_bytes())
    signed = f"{server}/logs/a.txt?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}"
    asked = [signed, signed.replace("a.txt", "missing.txt"), f"s3://me:{SECRET}@logs/a.txt", f"s3://me:{SECRET}@logs/*"]
    for name in asked:
        done = run("ingest", name, "--store", tmp_path, code=0 if name == signed else 3)
        assert SECRET not in done.output
        assert SECRET not in str(LogName.parse(name))
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("*/*.parquet"))
    assert remote.shown(signed) == f"{server}/logs/a.txt?X-Amz-Credential=...&X-Amz-Signature=..."


def test_without_credentials_the_error_says_so(monkeypatch: pytest.MonkeyPatch, bucket: Bucket) -> None:
    address = bucket.put("a.txt", b"a\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    type(bucket.files).clear_instance_cache()
    with pytest.raises(InputError, match="no credentials were found"):
        perflog.read(address)
    type(bucket.files).clear_instance_cache()
