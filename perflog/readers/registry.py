"""The known readers, and which of them reads a file.

Built-in readers and readers of other packages come through one entry-point group, `perflog.readers`. Its entries are
functions that return a list of `ReaderEntry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pkgutil import resolve_name

from perflog.entry_points import package_of, registered
from perflog.errors import ReaderError
from perflog.parsing.input.source import Source
from perflog.readers.interface import Reader, ReaderEntry

GROUP = "perflog.readers"

SQLITE_MAGIC = b"SQLite format 3\0"

# TensorBoard: the length of the first record, which is short, in 8 bytes.
_SHORT_RECORDS = tuple(bytes([length]) + bytes(7) for length in range(16, 256))

# Flight recorder: an object in JSON with one of these keys first, or a pickle: PROTO and its version, then EMPTY_DICT,
# from version 4 on in a FRAME.
_DUMP = (b"{", *(bytes([0x80, version]) for version in range(2, 6)))
_DUMP_THEN = (b'"version"', b'"entries"', b'"pg_', b'"nccl_', b'"comm_lib_version"', b"}", b"\x95")

_TABLE_MAGIC = (b"PAR1", b"ARROW1")  # Parquet and Arrow

# Histories of benchmarks, by commit.
_DATA_JS = (b"window.BENCHMARK_DATA", b"{")
_DATA_JS_THEN = (b"=", b'"lastUpdate"', b'"repoUrl"', b'"entries"')
_RECORDS_THEN = (
    b"{", b'"benchmark"', b'"model"', b'"metric"', b'"timestamp"', b'"schema_version"', b'"repo"', b'"name"',
    b'"head_sha"', b'"head_branch"', b'"workflow_id"',
)  # fmt: skip
_ASV_THEN = (b'"commit_hash"', b'"date"', b'"env_name"')

_BUILTIN = (
    ReaderEntry("perflog.readers.benchmarks.github_benchmark:GithubBenchmarkReader", _DATA_JS, then=_DATA_JS_THEN),
    ReaderEntry("perflog.readers.benchmarks.asv:AsvReader", (b"{",), then=_ASV_THEN),
    ReaderEntry(
        "perflog.readers.benchmarks.bencher:BencherReader", (b"{",), then=(b'"project"', b'"results"', b'"start_time"')
    ),
    ReaderEntry(
        "perflog.readers.benchmarks.pytorch_benchmarks:PytorchBenchmarkReader", (b"[", b"{"), then=_RECORDS_THEN
    ),
    ReaderEntry("perflog.readers.rocprof.json_reader:RocprofJsonReader", (b"{",), then=(b'"',)),
    ReaderEntry("perflog.readers.operators.execution_trace:ExecutionTraceReader", (b"{",), then=(b'"schema"',)),
    ReaderEntry("perflog.readers.chrome.reader:ChromeTraceReader", (b"{", b"["), then=(b'"', b"{")),
    ReaderEntry("perflog.readers.rocprof.rocpd_reader:RocpdReader", (SQLITE_MAGIC,)),
    ReaderEntry("perflog.readers.trackers.tensorboard:TensorBoardReader", _SHORT_RECORDS),
    ReaderEntry("perflog.readers.trackers.wandb:WandbReader", (b":W&B",)),
    ReaderEntry("perflog.readers.dumps.flight_recorder:FlightRecorderReader", _DUMP, then=_DUMP_THEN),
    ReaderEntry("perflog.readers.dumps.allocator_snapshot:AllocatorSnapshotReader", _DUMP[1:], then=_DUMP_THEN[-2:]),
    ReaderEntry("perflog.readers.xplane.reader:XplaneReader", (b"\n",)),
    ReaderEntry("perflog.readers.perfetto.reader:PerfettoReader", (b"\n",)),
    ReaderEntry("perflog.readers.nsys.reader:NsysReader", (SQLITE_MAGIC,), fallback=True),
    ReaderEntry("perflog.readers.operators.arrow_tables:ArrowTableReader", _TABLE_MAGIC, fallback=True),
)

_BLANK = b"\xef\xbb\xbf \t\r\n"
_HEAD = 1 << 12  # bytes in which the magic bytes are looked for


def builtin() -> Sequence[ReaderEntry]:
    """Return the readers that come with perflog."""
    return _BUILTIN


def find_reader(source: Source) -> Reader | None:
    """Return the reader of a log, or None: then it is a log of lines.

    Raises:
        ReaderError: a reader of another package cannot be loaded.
    """
    first_file = source.parts[0]
    head = first_file.first_bytes(_HEAD)
    beginnings = (head, head.lstrip(_BLANK))
    for entry, package in _in_order():
        if any(_begins_as_declared(entry, text) for text in beginnings if text.startswith(tuple(entry.magic))):
            reader = _load(entry, package)
            if reader.detect(first_file):
                return reader
    return None


def refuse_unknown_table(source: Source) -> None:
    """Raise UnknownTableError for a Parquet or Arrow file of other columns than perflog reads.

    It costs little, where a data set beside logs would be hashed as a whole to be refused by its reader.
    """
    if source.parts[0].first_bytes(len(_TABLE_MAGIC[1])).startswith(_TABLE_MAGIC):
        reader = find_reader(source)
        if reader is not None:
            reader.proof(source)


def _begins_as_declared(entry: ReaderEntry, text: bytes) -> bool:
    """Return whether bytes begin with magic bytes of a reader, and with what follows them."""
    for magic in entry.magic:
        if text.startswith(magic):
            after = text[len(magic) :].lstrip(_BLANK)
            if not entry.then or not after or after.startswith(entry.then):
                return True
    return False


def _in_order() -> Iterator[tuple[ReaderEntry, str]]:
    """Give readers in the order in which they are asked, each with its package ("" for perflog).

    Built-in readers come first, so that no other package changes how a file is read that perflog reads itself. Other
    packages are looked up only if none of them reads the file.
    """
    built_in = [(entry, "") for entry in _BUILTIN]
    yield from (declared for declared in built_in if not declared[0].fallback)
    others = _of_other_packages()
    yield from (declared for declared in others if not declared[0].fallback)
    yield from (declared for declared in (*built_in, *others) if declared[0].fallback)


@cache
def _of_other_packages() -> list[tuple[ReaderEntry, str]]:
    readers = []
    for point in registered(GROUP):
        package = package_of(point)
        try:
            declare = point.load()
            if declare is builtin:
                continue
            for entry in declare():
                if not isinstance(entry, ReaderEntry):
                    raise TypeError(f"{entry!r} is not a ReaderEntry")
                readers.append((entry, package))
        except Exception as error:
            raise _cannot_load(package, point.value, error) from error
    return readers


@cache
def _load(entry: ReaderEntry, package: str) -> Reader:
    try:
        reader: Reader = resolve_name(entry.reader)()
    except Exception as error:
        if not package:
            raise
        raise _cannot_load(package, entry.reader, error) from error
    return reader


def _cannot_load(package: str, where: str, error: Exception) -> ReaderError:
    reason = f"a reader of package `{package}` cannot be loaded: {error!r}"
    return ReaderError(reason, where, f"update or uninstall `{package}`")
