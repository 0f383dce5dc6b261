"""Names of logs: one file, several, and names with braces of their own."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.errors import InputError
from perflog.files import remote
from perflog.parsing.input.log_names import LogName, _is_hidden, base_name, expand, left_out, split_run
from perflog.parsing.input.source import open_source

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(raw: bytes, name: str = "run.txt") -> str:
        path = tmp_path / name
        path.write_bytes(raw)
        return str(path)

    return write


@given(st.lists(st.integers(0, 200), min_size=2, max_size=8, unique=True), st.booleans())
def test_names_of_several_files(numbers: list[int], padded: bool) -> None:
    names = [f"/x/run1_rank{n:03d}.7.json" if padded else f"/x/run1_rank{n}.7.json" for n in sorted(numbers)]
    joined = LogName.from_files(names)
    assert joined is not None and joined.files == tuple(names)
    assert LogName.parse(joined.log) == joined


def test_names_with_braces_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a{1,2}.json").write_text("")
    path = str(tmp_path / "a{1,2}.json")
    assert LogName.parse(path) == LogName.from_file(path)
    assert LogName.from_files(["a1{.json", "a2{.json"]) is None
    for text in ("a{1}.json", "a{9..1}"):
        assert LogName.parse(text).files == (text,)


def test_a_run_is_split_off_unless_the_file_has_that_name(write: Write, tmp_path: Path) -> None:
    path = write(b"a\n", "a#1")
    plain = write(b"b\n", "b")
    assert LogName.parse(path) == LogName(path, (path,))
    assert LogName.parse(f"{path}#2") == LogName(path, (path,), "2")
    assert LogName.parse(f"{plain}#x") == LogName(plain, (plain,), "x")
    assert open_source(f"{plain}#x").name == plain
    assert LogName.parse(f"{plain}:3") == LogName(plain, (plain,), "3")
    assert LogName.parse("http://localhost:80") == LogName("http://localhost:80", ("http://localhost:80",))
    colon = write(b"a\n", "a:1")
    assert LogName.parse(colon) == LogName(colon, (colon,))
    assert LogName.parse(f"{colon}:2") == LogName(colon, (colon,), "2")
    assert open_source(path).name == path


def expanded(names: list[str]) -> list[str]:
    return [str(log) for log in expand(names)]


def test_what_is_not_a_glob_or_a_folder_passes_through(write: Write) -> None:
    path = write(b"a\n", "run[1].txt")
    names = ["-", "-#2", "https://host/a?b=*#3", "Http://host/a", path, f"{path}#1", "missing.txt", "missing.txt#2"]
    assert expanded(names) == names


def test_a_folder_gives_its_logs_sorted(tmp_path: Path) -> None:
    for name in ["b.txt", "a/z.log", "a/.hidden", ".git/x", "c.pt", "d.PNG", "a.log.gz", "noend"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [os.path.relpath(path, tmp_path) for path in expanded([str(tmp_path)])]
    assert found == ["a.log.gz", "a/z.log", "b.txt", "noend"]
    assert expanded([f"{tmp_path}#2"])[1] == f"{tmp_path}/a/z.log#2"


def test_a_glob_gives_its_files_sorted(tmp_path: Path) -> None:
    for name in ["b1.txt", "a1.txt", "a2.txt"]:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "afolder").mkdir()
    assert expanded([f"{tmp_path}/a*"]) == [f"{tmp_path}/a1.txt", f"{tmp_path}/a2.txt"]
    assert expanded([f"{tmp_path}/a*#7"]) == [f"{tmp_path}/a1.txt#7", f"{tmp_path}/a2.txt#7"]


def test_a_folder_or_glob_without_logs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"")
    with pytest.raises(InputError, match="no logs in this folder"):
        expand([str(tmp_path)])
    with pytest.raises(InputError, match="no file matches"):
        expand([f"{tmp_path}/*.log"])


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_missing_file_names_its_nearest_neighbour(write: Write, tmp_path: Path) -> None:
    path = write(b"a\n", "train_rank0.log")
    with pytest.raises(InputError, match="no such file") as caught:
        open_source(str(tmp_path / "train_rnk0.log"))
    assert caught.value.help == f"did you mean {path}?"
    assert caught.value.where == str(tmp_path / "train_rnk0.log")


def test_logs_with_a_comma_between_them_are_told_apart(write: Write) -> None:
    """A reader who knows lists like a.txt,b.txt learns how repeats of a side are given."""
    paths = [write(b"a\n", name) for name in ("a.log", "b.log")]
    with pytest.raises(InputError, match="no such file") as caught:
        open_source(",".join(map(str, paths)))
    assert f"a={paths[0]} a={paths[1]}" in (caught.value.help or "")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        open_source(str(tmp_path / "no" / "run.txt"))


def test_a_missing_reference_run_is_no_log() -> None:
    with pytest.raises(InputError, match="no such file") as caught:
        open_source("reference:moe_layer.txt")
    assert "reference runs are tables" in (caught.value.help or "")


def test_a_missing_file_without_a_neighbour(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file") as caught:
        open_source(str(tmp_path / "run.txt"))
    assert caught.value.help == "check the name"


# --- names of several files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "files", "run"),
    [
        ("rank{0..2}.json#warm", ("rank0.json", "rank1.json", "rank2.json"), "warm"),
        ("rank{8..10}.json", ("rank8.json", "rank9.json", "rank10.json"), ""),
        ("{a,b}.json:3", ("a.json", "b.json"), "3"),
        ("x{1}/r{0..1}", ("x{1}/r0", "x{1}/r1"), ""),  # the last braces of a name
        ("rank{2..2}.json", ("rank{2..2}.json",), ""),
        ("rank{2..1}.json", ("rank{2..1}.json",), ""),
        ("rank{00..2}.json", ("rank{00..2}.json",), ""),
        ("rank{0..1048576}", ("rank{0..1048576}",), ""),  # too many
        ("https://host/r{0..1}.json", ("https://host/r{0..1}.json",), ""),
        ("s3://bucket/r{0..1}.json", ("s3://bucket/r0.json", "s3://bucket/r1.json"), ""),
    ],
)
def test_the_files_of_a_name(text: str, files: tuple[str, ...], run: str) -> None:
    name = LogName.parse(text)
    assert (name.files, name.run) == (files, run)
    assert name.whole.files == files and name.whole.run == ""


@pytest.mark.parametrize(
    ("paths", "log"),
    [
        (["a.json"], "a.json"),
        (["r0.json", "r1.json", "r2.json"], "r{0..2}.json"),
        (["r8.json", "r9.json", "r10.json"], "r{8..10}.json"),
        (["r10.json", "r11.json"], "r{10..11}.json"),
        (["r0.json", "r2.json"], "r{0,2}.json"),
        (["r00.json", "r01.json"], "r{00,01}.json"),
        (["a1.7", "b1.7"], "{a1,b1}.7"),
        (["x/a.json", "x/b.json"], "x/{a,b}.json"),
        (["r.json", "r1.json"], "{r,r1}.json"),  # one has nothing where the others differ
        (["x/.json", "x/1.json"], None),
        (["a,b.json", "c.json"], None),
        (["a1}.json", "a2}.json"], None),
        (["{x}1", "{x}2"], "{x}{1..2}"),
    ],
)
def test_one_name_for_several_files(paths: list[str], log: str | None) -> None:
    name = LogName.from_files(paths)
    assert (None if name is None else name.log) == log
    assert name is None or name.files == tuple(paths)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run.txt", ("run.txt", "")),
        ("run.txt#3", ("run.txt", "3")),
        ("a#b#c", ("a#b", "c")),
        ("run.txt:12", ("run.txt", "12")),
        ("run.txt:0", ("run.txt:0", "")),
        ("run.txt:012", ("run.txt:012", "")),
        ("run.txt:x", ("run.txt:x", "")),
        (":3", (":3", "")),
        ("http://host:80", ("http://host:80", "")),
        ("http://host/a#2", ("http://host/a", "2")),
    ],
)
def test_the_run_of_a_name(text: str, expected: tuple[str, str]) -> None:
    assert split_run(text) == expected


# --- what is there ----------------------------------------------------------------------------------------------------


def test_whether_there_is_something_to_read(write: Write, tmp_path: Path) -> None:
    path = write(b"a\n")
    there = [path, f"{path}#2", str(tmp_path), f"{tmp_path}/*.txt", "-", "https://host/a", f"{tmp_path}/{{run,x}}.txt"]
    assert [name for name in there if not LogName.parse(name).exists()] == []
    missing = [f"{path}x", f"{tmp_path}/*.log", f"{tmp_path}/{{x,run}}.txt"]
    assert [name for name in missing if LogName.parse(name).exists()] == []


def test_documents_that_were_found_are_known_as_such(write: Write, tmp_path: Path) -> None:
    path = write(b"a\n", "README.md")
    write(b"a\n", "run.txt")
    assert [log.is_found_document for log in expand([str(tmp_path)])] == [True, False]
    assert [log.is_found_document for log in expand([path, f"{tmp_path}/*.md"])] == [False, False]  # the user named it


def test_a_pipe_in_a_folder_is_left_out_with_a_warning(write: Write, tmp_path: Path) -> None:
    path = write(b"a\n")
    os.mkfifo(tmp_path / "pipe")
    with pytest.warns(UserWarning, match="pipe: left out: it is a pipe"):
        assert expanded([str(tmp_path)]) == [path]


def test_the_sentence_on_files_that_are_left_out() -> None:
    assert left_out("nothing in them is known", ["a", "b"]) == "left out, because nothing in them is known: a, b"
    assert left_out("x", ["a", "b", "c", "d", "e"]).startswith("left out, because x: a, b, c")


# --- storages and archives --------------------------------------------------------------------------------------------


def in_storage(monkeypatch: pytest.MonkeyPatch, name: str, addresses: list[str], file: str | None = None) -> list[str]:
    """The logs of a name, and their sizes, in a storage that has these addresses; `file`: the name is of a file."""
    every = [SimpleNamespace(address=address, size=len(address)) for address in addresses]
    monkeypatch.setattr(remote, "found", lambda _: SimpleNamespace(address=file, size=7) if file else None)
    monkeypatch.setattr(remote, "under", lambda _: every)
    monkeypatch.setattr(remote, "matching", lambda _: every)
    return [f"{log} {log.remote_size}" for log in LogName.parse(name).logs()]


def test_logs_in_a_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden files count only if the name spells them out; files that would be fetched to be looked at do not."""
    files = [
        "s3://b/x/a.txt",
        "s3://b/x/.git/c.txt",
        "s3://b/x/.d",
        "s3://b/x/e.parquet",
        "s3://b/x/f.PT",
        "s3://b/x/g",
    ]
    assert in_storage(monkeypatch, "s3://b/x", files) == ["s3://b/x/a.txt 14", "s3://b/x/g 10"]
    assert in_storage(monkeypatch, "s3://b/x#2", files)[0] == "s3://b/x/a.txt#2 14"
    assert in_storage(monkeypatch, "s3://b/x/*", files[:3]) == ["s3://b/x/a.txt 14"]
    assert in_storage(monkeypatch, "s3://b/x/.*", files[2:3]) == ["s3://b/x/.d 11"]
    assert in_storage(monkeypatch, "s3://b/x/a.txt", [], "s3://b/x/a.txt") == ["s3://b/x/a.txt 7"]
    assert in_storage(monkeypatch, "s3://b/x/none", []) == ["s3://b/x/none None"]
    assert in_storage(monkeypatch, "s3://b/r{0..1}", files) == ["s3://b/r{0..1} None"]
    for name, reason in (("s3://b/*", "no file matches"), ("s3://b/x", "no logs in this folder")):
        with pytest.raises(InputError, match=reason):
            in_storage(monkeypatch, name, files[2:3])


def test_a_storage_that_does_not_answer_is_an_error_when_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise InputError("no answer")

    monkeypatch.setattr(remote, "found", refuse)
    assert [str(log) for log in LogName.parse("s3://b/x").logs()] == ["s3://b/x"]


def test_archives_give_their_logs(write: Write, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        for name in ("b.txt", "a.log", "c.py"):
            archive.writestr(name, "x")
    write(b"a\n", "z.txt")
    path = str(tmp_path / "logs.zip")
    assert expanded([path]) == [f"{path}/a.log", f"{path}/b.txt"]
    assert expanded([str(tmp_path)]) == [f"{path}/a.log", f"{path}/b.txt", str(tmp_path / "z.txt")]
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as archive:
        archive.writestr("c.py", "x")
    with pytest.raises(InputError, match="no logs"):
        expanded([str(tmp_path / "none.zip")])


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file matches"):
        expanded([f"{tmp_path}/*.txt"])


@pytest.mark.parametrize(
    ("address", "searched", "is_hidden"),
    [
        ("s3://b/logs/.old/a.txt", "s3://b/logs/", True),
        ("s3://b/logs/.a.txt", "s3://b/logs", True),
        ("s3://b/logs/a.txt", "s3://b/logs/", False),
        ("s3://b/.logs/a.txt", "s3://b/.logs/*.txt", False),  # what is searched spells it out
        ("s3://b/.logs/a.txt", "s3://b/.logs", False),
        ("s3://b/logs/.old/a.txt", "s3://b/logs/*/a.txt", True),
        ("s3://b/.logs/.old/a.txt", "s3://b/.logs/*/a.txt", True),
        ("s3://b/logs/.old/a.txt", "s3://b/logs/*/.old/a.txt", False),
    ],
)
def test_hidden_files_in_a_storage(address: str, searched: str, is_hidden: bool) -> None:
    assert _is_hidden(address, searched) == is_hidden


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("a/run.txt", "run.txt"),
        ("job/rank_{0..3}.log", "rank_{0..3}.log"),
        ("job/attempt_0/{0/stdout,0/stderr}.log", "attempt_0"),
        ("{0/stdout,1/stdout}.log", "{0/stdout,1/stdout}.log"),  # no folder holds them
        (f"job/rank_{{{','.join(f'{rank:04d}' for rank in range(1024))}}}.log", "rank_{0000 ... 1023}.log"),
    ],
)
def test_the_last_part_of_the_name_of_a_log(log: str, name: str) -> None:
    assert base_name(log) == name


def test_a_damaged_archive_and_a_link_to_nothing_are_errors_when_they_are_read(write: Write, tmp_path: Path) -> None:
    damaged = write(b"PK\x03\x04", "a.zip")
    (tmp_path / "b.log").symlink_to(tmp_path / "nothing")
    assert [str(name) for name in expand([str(tmp_path)])] == [damaged, str(tmp_path / "b.log")]
