"""Each command with odd words, streams and surroundings: one clear error or a result, never a traceback.

`COMMANDS` has a call that works for each command. The tests put odd values in place of each of its arguments, and add
each option of the command with odd values.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner, Result
from support.commands import SWEEP, run, told
from support.patience import PATIENCE_S

import perflog
from perflog.cli.main import main
from perflog.errors import InputError
from perflog.output.terminal import visible
from perflog.parsing.input.followed_file import Patience
from perflog.parsing.input.log_names import expand

STEPS = "".join(f"iter {i}: loss 2.5, time 20.00ms, mfu 1.00%\n" for i in range(24))
EXIT_CODES = {0, 1, 2, 3, 130}


class Call(NamedTuple):
    """A call that works: its arguments, and options that it needs. `every`: of the odd values take each n-th."""

    arguments: str
    options: str = ""
    every: int = 1


COMMANDS = {
    "aa": Call("run.txt", "--trials 2", 5),
    "analyze": Call("run.txt steps", every=8),
    "baseline accept": Call("main run.txt", "--store st", 8),
    "baseline list": Call("", "--store st", 4),
    "baseline rm": Call("main", "--store st", 8),
    "baseline set": Call("main run.txt", "--store st", 12),
    "baseline show": Call("main", "--store st", 8),
    "ci comment": Call("summary.md"),
    "ci gate": Call("run.txt", "--base run2.txt", 40),
    "ci keep": Call("kept.zip", "--store st"),
    "ci restore": Call("kept.zip", "--store st3"),
    "compact": Call("", "--store st"),
    "compare": Call("run.txt run2.txt", every=14),
    "completion": Call("bash"),
    "config": Call(""),
    "demo": Call("", "-o demo.html", 40),
    "detect": Call("run.txt", every=2),
    "diagnose": Call("run.txt", every=3),
    "export": Call("run.txt", "--to csv -o out", 4),
    "formats check": Call("mine.toml"),
    "formats explain": Call("'iter 3: loss 2.5, time 20.00ms, mfu 1.00%'", every=18),
    "formats list": Call(""),
    "formats show": Call("megatron"),
    "formats suggest": Call("unknown.txt"),
    "ingest": Call("run.txt", "--store st2", 9),
    "lint": Call("run.txt", every=6),
    "mcp": Call("folder", every=8),
    "overview": Call("run.txt", every=18),
    "plot": Call("run.txt", every=22),
    "query": Call("'select 1 as one' run.txt", every=6),
    "regenerate": Call("moe-layer", "--log new.log"),
    "report": Call("run.txt", "-o out.md", 40),
    "rm": Call("run.txt", "--store st"),
    "runs": Call("", "--store st", 4),
    "serve": Call("run.txt", "--port 0", 8),
    "show": Call("run.txt steps", every=4),
    "track": Call("run.txt", every=12),
    "watch": Call("run.txt", "--until-idle 0", 3),
}

NUMBERS = ["", "x", "inf", "-inf", "nan", "1e999", "-1", "-0", "0", "1e-320", "9" * 30, str(2**63), "9" * 5000, "12"]
NUMBERS += ["0x10", "1e308", "²", os.fsdecode(b"\xff"), "\x1b[31m1"]
TEXTS = [
    "",
    " ",
    "-",
    "--",
    ".",
    "missing.txt",
    "folder",
    "empty",
    "run.txt/",
    "run.txt/x",
    "no/such/file",
    "unknown.txt",
]
TEXTS += ["#", ":", "=", ",", "#1", ":1", "run.txt#0", f"run.txt#{'9' * 30}", "=run.txt", "a=", "*", "[", "{", "{a,b}"]
TEXTS += ["reference:", "reference:#", "s3://", "http://[", "http://[::1", "ftp://x", "file:///no/such"]
TEXTS += [
    "inf",
    "nan",
    "-1",
    "9" * 30,
    os.fsdecode(b"b\xff"),
    os.fsdecode(b"\xff.md"),
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "\r",
]
TEXTS += ["\u202eabc", "\u2028", "\ufeff", "\U0010ffff", "x" * 255, "x" * 5000, "d/" * 3000, "'", '"', "%s", "{0}"]
TEXTS += [
    "-x",
    "--x",
    "--format",
    "\x07=\x1b",
    "damaged.json",
    "damaged.sqlite",
    "link",
    "(" * 20_000,
    "a = 1" + " and a = 1" * 5000,
]


def commands(group: click.Group = main, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands of the command line, with the commands of its groups."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


ALL = dict(commands())


def test_each_command_has_a_call() -> None:
    assert sorted(COMMANDS) == sorted(ALL)


def impatient(interval: float, until_idle: float | None) -> Patience:
    """Patience for two looks at a file; then somebody presses Ctrl-C."""
    looks = iter(range(2))

    def sleep(_: float) -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt

    return Patience(interval, until_idle, sleep)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of logs, with a store: each test gets a copy."""
    home = tmp_path_factory.mktemp("made")
    (home / "run.txt").write_text(STEPS)
    (home / "run2.txt").write_text(STEPS.replace("20.00", "21.00"))
    (home / "unknown.txt").write_text("".join(f"zork {i} after {i * 2.5} ms\n" for i in range(20)))
    (home / "empty").touch()
    (home / "folder").mkdir()
    (home / "link").symlink_to("link")
    (home / "damaged.json").write_text('{"traceEvents": [{"ph": "X", "ts": ')
    (home / "damaged.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 100)
    (home / "mine.toml").write_text('[format]\nname = "mine"\n')
    with chdir(home), pytest.MonkeyPatch.context() as patch:
        patch.delenv("PERFLOG_STORE", raising=False)
        run("ingest", "run.txt", "--store", "st")
        run("baseline", "set", "main", "run.txt", "--store", "st")
    return home


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of logs, with a store, into which a command may write. Nothing trains, and nothing waits."""

    def train(*_: object) -> None:
        raise InputError("nothing trains in this test")

    home = shutil.copytree(made, tmp_path / "here", symlinks=True)
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    monkeypatch.setattr("perflog.trainer.regenerate.train", train)
    monkeypatch.setattr("perflog.parsing.input.followed_file.Patience", impatient)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    return home


def words(name: str) -> list[str]:
    """The words of the call that works."""
    call = COMMANDS[name]
    return [*name.split(), *shlex.split(call.options), *shlex.split(call.arguments)]


def odd_calls(name: str) -> Iterator[list[str]]:
    """Calls of a command with an odd value each."""
    command, call = ALL[name], COMMANDS[name]
    start, arguments = [*name.split(), *shlex.split(call.options)], shlex.split(call.arguments)
    number = sum(isinstance(param, click.Argument) for param in command.params)
    for i in range(number):
        for value in TEXTS[i % call.every :: call.every]:
            given = [*arguments[:i], value, *arguments[i + 1 :]]
            yield [*start, "--", *given]
            if value.startswith("-"):
                yield [*start, *given]
        if i < len(arguments):
            yield [*start, *arguments[:i], *arguments[i + 1 :]]
    for i, option in enumerate(param for param in command.params if isinstance(param, click.Option)):
        flag = option.opts[0]
        if option.is_flag:
            yield [*start, flag, *arguments]
            yield [*start, f"{flag}=x", *arguments]
        elif isinstance(option.type, click.Choice):
            values = [*option.type.choices, "", "\x1b[31m"]
            yield from ([*start, flag, str(value), *arguments] for value in values[i % call.every :: call.every])
        else:
            is_text = isinstance(option.type, (click.types.StringParamType, click.Path))
            every = call.every * (2 if is_text else 1)
            values = TEXTS if is_text else NUMBERS
            yield from ([*start, f"{flag}={value}", *arguments] for value in values[i % every :: every])
            yield [*start, *arguments, flag]


def called(words: list[str], **env: str | None) -> Result:
    return CliRunner().invoke(main, words, prog_name="perflog", env=env)


def fault(done: Result) -> str | None:
    """What is wrong with how a command has ended."""
    if done.exception and not isinstance(done.exception, SystemExit):
        return "".join(traceback.format_exception(done.exception)[-4:])
    if done.exit_code not in EXIT_CODES:
        return f"exit code {done.exit_code}"
    return fault_of_text(done.exit_code, done.stdout, done.stderr)


def fault_of_text(code: int, stdout: str, stderr: str) -> str | None:
    for text in (stdout, stderr):
        if visible(text) != text:
            return f"control characters: {text[:500]!r}"
        if "Traceback" in text or "Exception ignored" in text:
            return text[-500:]
    if code in (2, 3) and not stderr.strip() and f"(exit code {code})" not in stdout:  # so a gate tells its outcome
        return "an error without a message"
    return None


@pytest.mark.parametrize("name", sorted(ALL))
def test_odd_words(here: Path, name: str) -> None:
    assert called(words(name)).exit_code == (3 if name in ("regenerate", "formats check") else 0)
    calls = list(odd_calls(name))
    faults = {" ".join(call)[:200]: said for call in calls if (said := fault(called(call)))}
    assert not faults, f"{len(faults)} of {len(calls)}: {list(faults.items())[:3]}"


def test_odd_surroundings(here: Path) -> None:
    """Each command in every second of them. A call that works elsewhere may fail here, with one error."""
    surroundings: list[dict[str, str | None]] = [
        {"PERFLOG_STORE": "run.txt"},
        {"PERFLOG_STORE": "a\n\x1b[31mb\udcff"},
        {"PERFLOG_STORE": "s3://"},
        {"TMPDIR": "/no/such/folder", "HOME": None, "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None},
        {"HOME": os.devnull, "XDG_CACHE_HOME": "run.txt/x", "MPLCONFIGDIR": "run.txt/x"},
        {"COLUMNS": "0", "LINES": "x", "TERM": "", "TZ": "x", "SHELL": "\x1b", "NO_COLOR": "x"},
    ]
    for i, name in enumerate(sorted(set(ALL) - {"report", "aa", "compare", "ci gate", "demo"})):
        for env in surroundings[i % 2 :: 2]:
            assert not (said := fault(called(words(name), **env))), f"{name} {env}: {said}"


@contextmanager
def not_root() -> Iterator[None]:
    """The rights of a user who may not read what is forbidden; root may."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no modes")
def test_forbidden_files_and_folders(here: Path) -> None:
    """A log and a store that may not be read, in a folder that may not be written."""
    cheap = sorted(set(ALL) - {"report", "aa", "compare", "regenerate", "plot", "ci gate", "demo"})
    results = {name: called(words(name)) for name in cheap}  # everything is imported
    shutil.rmtree(here / "st")
    shutil.rmtree(here / "st2")
    run("ingest", "run.txt", "--store", "st")
    closed = [here / "run.txt", here / "unknown.txt", here / "mine.toml", here / "st", here]
    for path in closed:
        path.chmod(0o500 if path == here else 0)
    try:
        with not_root():
            results = {name: called(words(name)) for name in cheap}
    finally:
        for path in reversed(closed):
            path.chmod(0o700)
    assert not {name: said for name, done in results.items() if (said := fault(done))}
    free = ("ci comment", "completion", "config", "formats explain", "formats list", "formats show")
    assert {name for name, done in results.items() if not done.exit_code} == set(free)


# --- closed and full streams --------------------------------------------------------------------------------------

STREAMS = {
    ">/dev/full": 3,
    "| true": 141,
    ">&-": 0,
    "<&- 2>&-": 0,
    ">&- 2>&- <&-": 0,
    "2>/dev/full": 0,
    ">/dev/full 2>/dev/full": 3,
}
"""Code with which a command ends that prints something."""


def in_a_fork(given: list[str], streams: str, folder: Path) -> tuple[int, str, str]:
    """Run a command in a fork of this process, which has imported all that it needs. Return code, output and errors."""
    out, err = folder / "out", folder / "err"
    if not (child := os.fork()):
        code = 70
        signal.alarm(round(PATIENCE_S))  # ends a command that hangs
        try:
            redirect(streams, out, err)
            code = exit_code_of(given)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return (128 - code if code < 0 else code), out.read_text(), err.read_text()


def redirect(streams: str, out: Path, err: Path) -> None:
    """Give this process its streams as a shell and the interpreter do: a closed one is None."""
    files = {0: os.devnull, 1: str(out), 2: str(err)}
    for number, path in files.items():
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    closed = {number for number, sign in ((0, "<&-"), (1, ">&-"), (2, "2>&-")) if sign in streams.split()}
    for number, sign in ((1, ">/dev/full"), (2, "2>/dev/full")):
        if sign in streams.split():
            os.dup2(os.open("/dev/full", os.O_WRONLY), number)
    if streams == "| true":
        reads, writes = os.pipe()
        os.close(reads)
        os.dup2(writes, 1)
    for number in closed:
        os.close(number)
    opened_as = [None if number in closed else os.fdopen(number, "r" if not number else "w") for number in files]
    sys.stdin, sys.stdout, sys.stderr = opened_as


def exit_code_of(given: list[str]) -> int:
    """Run a command to the end of the interpreter, which writes what is left."""
    code = 0
    try:
        main(given, prog_name="perflog")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return 120
    return code


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_closed_and_full_streams(here: Path) -> None:
    """One kind of streams for each command, and all of them for a few. `regenerate` lists its recipes."""
    kinds = list(STREAMS)
    jobs = [
        (name, kinds[k % len(kinds)])
        for i, name in enumerate(sorted(ALL))
        for k in ((i,) if name not in ("runs", "completion") else range(len(kinds)))
    ]

    def ended(job: tuple[str, str]) -> str | None:
        name, streams = job
        store = here / f"st-{jobs.index(job)}"
        given = [str(store) if word == "st" else word for word in words(name)] if name != "regenerate" else [name]
        if str(store) in given:  # what one command removes, another one shows
            shutil.copytree(here / "st", store)
        code, stdout, stderr = in_a_fork(given, streams, here.parent)
        # A reader that has gone may take the output before it goes.
        codes = {STREAMS[streams], 0} if streams == "| true" else {STREAMS[streams]}
        expected = {3} if name == "formats check" else codes
        if code not in expected:
            return f"exit code {code}: {stderr}"
        return fault_of_text(0, stdout, stderr)

    faults = {job: said for job in jobs if (said := ended(job))}
    assert not faults


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["lint", "analyze", "show"])
def test_output_that_has_no_room_is_one_error(tmp_path: Path, command: str) -> None:
    """Output of many lines, which is written in several parts."""
    code, _, stderr = in_a_fork([command, SWEEP], ">/dev/full", tmp_path)
    assert (code, stderr) == (3, "perflog: standard output: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("streams", STREAMS)
def test_a_process_with_closed_and_full_streams(tmp_path: Path, streams: str) -> None:
    """With the start and the end of an interpreter of its own, which loads little."""
    command = f"set -o pipefail; {shlex.quote(sys.executable)} -m perflog completion bash {streams}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode in ({STREAMS[streams], 0} if streams == "| true" else {STREAMS[streams]})
    assert fault_of_text(0, done.stdout, done.stderr) is None


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("ingest - <&-", 3, "perflog: -: the log is empty"),
        ("overview missing.txt >&-", 3, "perflog: missing.txt: no such file"),
        ("overview missing.txt 2>/dev/full", 3, ""),
        ("overview --nothing 2>/dev/full", 2, ""),
        ("show run.txt steps >&- 2>&- <&-", 0, ""),
        ("--version >&-", 0, ""),
        ("--version >/dev/full", 3, "perflog: standard output: No space left on device"),
        ("-h | true", None, ""),
    ],
)
def test_exit_codes_with_closed_streams(tmp_path: Path, command: str, code: int | None, message: str) -> None:
    (tmp_path / "run.txt").write_text(STEPS)
    line = f"exec {shlex.quote(sys.executable)} -m perflog {command}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert code in (None, done.returncode) and done.stdout == ""
    assert done.stderr.startswith(message) and "Traceback" not in done.stderr


def test_an_ascii_locale(here: Path) -> None:
    """A name and signs that ASCII lacks."""
    Path("naïve ± run.txt").write_text(STEPS)
    env = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-m", "perflog", "overview", "naïve ± run.txt"]
    done = subprocess.run(line, capture_output=True, env=env)
    assert done.returncode == 0 and b"Traceback" not in done.stderr and b"nanogpt" in done.stdout


@pytest.mark.parametrize("size", ["0", "1", "-5", "x", "9999999999"])
def test_odd_widths_of_a_terminal(here: Path, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.output.terminal._columns", _columns_of_a_terminal)
    for name in ("overview", "runs", "show", "formats list", "lint"):
        assert not (said := fault(called(words(name), COLUMNS=size))), said


def _columns_of_a_terminal(err: bool) -> int:  # as the function that it replaces
    return shutil.get_terminal_size().columns


# --- the Tab key --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_tab_key_with_odd_words(here: Path, shell: str) -> None:
    for value in ("", "'", '"', "\\", "$(", "#", "x" * 5000, os.fsdecode(b"\xff"), "--store", "a="):
        for name in ("show", "compare", "plot run.txt", "runs --store", "formats show", "nothing"):
            line = f"perflog {name} {value}"
            env = {
                "_PERFLOG_COMPLETE": f"{shell}_complete",
                "COMP_WORDS": line,
                "COMP_CWORD": "2",
                "COMP_CURRENT": value,
            }
            done = called([], **env)
            assert not (said := fault(done)) and done.exit_code == 0, f"{line!r}: {said or done.output}"


@pytest.mark.parametrize("asked", ["bash_complete", "zsh_complete", "fish_complete"])
def test_the_tab_key_without_a_command_line(asked: str) -> None:
    done = called([], _PERFLOG_COMPLETE=asked)
    assert done.exit_code == 2 and "completion was asked for without a command line" in done.stderr


# --- names and numbers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["inf", "nan", "1e999"])
def test_infinite_numbers(tmp_path: Path, number: str) -> None:
    log = tmp_path / "run.txt"
    log.write_text(STEPS)
    for words in (["regenerate", "moe-layer", "--scale", number], ["analyze", log, "--peak-tflops", number]):
        done = run(*words, code=2)
        assert f"{number!r} is not a finite number" in done.output or "is not in the range" in done.output


def test_a_warm_up_of_all_steps_leaves_no_step(tmp_path: Path) -> None:
    log = tmp_path / "run.txt"
    log.write_text(STEPS)
    for warmup in (24, 2**70):
        assert "24 steps" in run("overview", log, "--warmup", warmup).stdout
        assert told("analyze", log, "waterfall", "--warmup", warmup, "--format", "json", code=0)


@pytest.mark.parametrize("limit", [2**63, 10**30])
def test_a_limit_beyond_all_rows(tmp_path: Path, limit: int) -> None:
    log = tmp_path / "run.txt"
    log.write_text(STEPS)
    for words in (["show", log, "steps"], ["query", "select * from steps", log]):
        assert run(*words, "--limit", limit).stdout == run(*words, "--limit", 0).stdout


def test_a_file_name_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"b\xff.txt")
    Path(name).write_text(STEPS)
    run("ingest", name, "--store", "st")
    (row,) = told("runs", "--store", "st", "--format", "json")["rows"]
    assert row["log"] == r"b\udcff.txt"
    assert r"b\udcff" in run("compare", name, name).stdout


def test_what_is_written_may_have_a_name_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.txt").write_text(STEPS)
    store, folder, page = (os.fsdecode(name) for name in (b"st\xff", b"csv\xff", b"page\xff.md"))
    run("ingest", "run.txt", "--store", store)
    run("compact", "--store", store)
    assert len(told("show", "run.txt", "steps", "--store", store, "--format", "json")["rows"]) == 24
    run("export", "run.txt", "--to", "csv", "-o", folder)
    assert len((Path(folder) / "steps.csv").read_text().splitlines()) == 25
    run("report", "run.txt", "-o", page)
    assert Path(page).read_text().startswith("#")


def test_a_label_that_is_not_utf_8_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.txt").write_text(STEPS)
    label = os.fsdecode(b"l\xfe")
    run("ingest", "run.txt", "--label", label, "--store", "st")
    assert told("show", label, "--store", "st", "--format", "json")["run"]["label"] == r"l\udcfe"


@pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    """The command line cannot hold them, a program can."""
    log = tmp_path / "run.txt"
    log.write_text(STEPS)
    read = perflog.read(log)
    for call in (
        lambda: perflog.read(name),
        lambda: perflog.find_runs(name),
        lambda: perflog.load(name),
        lambda: perflog.ingest(log, store=name),
        lambda: read.save(name),
        lambda: perflog.export.csv(read, name),
        lambda: perflog.export.perfetto(read, name),
    ):
        with pytest.raises(InputError, match="this is not a valid file name"):
            call()


def test_pipes_and_devices_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text(STEPS)
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "null.txt").symlink_to(os.devnull)
    with closing(socket.socket(socket.AF_UNIX)) as opened, chdir(tmp_path):
        opened.bind("socket.txt")  # a long path would not do
    (tmp_path / "folder.txt").mkdir()
    kinds = {"pipe.txt": "a pipe", "null.txt": "a device", "socket.txt": "a socket"}
    if os.path.ismount("/proc"):
        (tmp_path / "version.txt").symlink_to("/proc/version")
        kinds["version.txt"] = "a file of the kernel"
    for name in (tmp_path, tmp_path / "*.txt"):
        with pytest.warns(UserWarning, match="left out") as caught:
            assert [str(log) for log in expand([str(name)])] == [str(tmp_path / "run.txt")]
        told_of = {str(warning.message).partition(": reading it")[0] for warning in caught}
        assert told_of == {f"{tmp_path / name}: left out: it is {kind}" for name, kind in kinds.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside the tests
        shown = run("ingest", str(tmp_path), "--store", str(tmp_path / "store")).stderr
    assert shown.count("perflog: warning: ") == shown.count("left out: it is") == len(kinds)
    (tmp_path / "run.txt").unlink()
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(InputError, match="no logs in this folder"), pytest.warns(UserWarning, match="left out"):
        expand([str(tmp_path)])
    assert "/dev/zero: this is a device, not a log" in run("detect", "/dev/zero", code=3).output


def test_a_line_that_is_not_utf_8_is_explained() -> None:
    output = run("formats", "explain", os.fsdecode(b"iter \xff 1: loss 2")).output
    assert output.startswith("line `results` of meters")
    assert "loss  2" in output


def test_a_backend_that_matplotlib_does_not_have(here: Path) -> None:
    """It is looked at when matplotlib is loaded: in a process of its own."""
    call = [sys.executable, "-m", "perflog", "plot", "run.txt", "steps", "-o", "x.png"]
    done = subprocess.run(call, cwd=here, env=os.environ | {"MPLBACKEND": "nope"}, capture_output=True, text=True)
    assert done.returncode == 2 and "unset MPLBACKEND" in done.stderr and "Traceback" not in done.stderr
