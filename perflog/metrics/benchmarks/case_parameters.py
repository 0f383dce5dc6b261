"""Parameters of cases: which columns of records say what was measured, and which are results."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import TypeAlias

from perflog.formats.families.name_units import is_statistic
from perflog.formats.vocabulary import EVALUATIONS, MOMENTS
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.directions import better, words_of

Cell: TypeAlias = float | str | None
"""What a record prints in a column: a number, a word, or nothing."""

CONFIGURES = lazy_pattern(
    r"(?:.*[_.])?(?:size|len|length|dim|dims|heads|layers|hidden|experts|topk|chunk|chunks|sms|batch|bs|seq\w*|tp|dp|pp|"
    r"ep|cp|isl|osl|tokens|concurrency|conc|nodes|gpus|ranks|threads|blocks?|warps|stages|iters?|width|depth|world_size|"
    r"channels|degree|shape|level|of_rank|from|to|src|dst|gpu|cpu|peer)|(?:num|n|max|min|micro|global|local)_\w+|\w+_(?:in|out)put_(?:len|tokens)|[a-z]|[a-z]dim",
    re.IGNORECASE,
)
"""Names of whole numbers that configure a measurement."""
_CHOSEN = lazy_pattern(
    r"(?:params?|config|hparams|hyperparameters)[./_].+|(?:\w*_)?(?:lr|learning_rate|weight_decay|wd|dropout|momentum"
    r"|beta_?[0-9]?|epsilon|temperature|warmup\w*|clip(?!_?(?:score|sim|frac))\w*|label_smoothing)",
    re.IGNORECASE,
)
"""Names of numbers that a search chooses, whole or not."""
TRIAL = lazy_pattern(r"trial(?:[_ ](?:name|id|number))?", re.IGNORECASE)
_MOST_NUMBERS = 8  # of a setting; a curve over steps has more
_TRIAL_NAMES = ("params_", "number")
"""In Optuna's frame of trials: prefix of the names of chosen parameters, and name of the number of a trial."""
_DEGREE = lazy_pattern(
    r"(?:.*_)?(?:ratio|fraction|factor|sparsity|density|alpha|gamma|lambda\w*|sigma|tau|threshold|strength|noise|scale"
    r"|utilization)",
    re.IGNORECASE,
)
"""Names of numbers that configure a measurement, if they directly follow other parameters."""
NAMES_WORK = lazy_pattern(
    r"(?:.*[_. ])?"
    r"(?:name|kernel|op|operator|operation|layer|module|function|phase|test|test[_ ]case|task|job|line_number|heading|"
    r"time|duration)s?",
    re.IGNORECASE,
)
"""Names of columns that describe which work is measured."""
_MOMENTS = frozenset("timestamp date datetime".split())
"""Names of when a record was written."""
_UNIT = frozenset(("unit", "units"))
_SIZES = frozenset(("size", "bytes"))  # words in names of parameters, whole or not: `47.84 MiB`
_OUTCOME = lazy_pattern(r"(?:.*[_. ])?(?:status|state|outcome|result)", re.IGNORECASE)
"""Names of columns with the outcome of a case."""
_OUTCOMES = lazy_pattern(
    r"ok|pass\w*|succe\w+|complet\w+|done|finish\w+|running|pending|queued|waiting|prun\w+|terminat\w+|fail\w*|error\w*"
    r"|oom\w*|out.of.memory|crash\w*|time.?d?.?out\w*|cancel\w*|kill\w*|abort\w*|invalid|skip\w*|nan|inf|best|preempt\w*"
    r"|node_fail|true|false|yes|no|[xX✓✗✅❌]+",
    re.IGNORECASE,
)
"""Words for an outcome. A `state` may also be what is measured, such as one in FP32 or BF16."""
_FAILED = lazy_pattern(
    r"(?:(?:cuda|gpu)? ?out of memory|oom|(?:runtime|compile|launch)? ?err(?:or)?|fail(?:ed|ure)?|crash(?:ed)?"
    r"|time(?:d )?out|killed|out of resources|[-+]?inf(?:inity)?|nan|\w+(?:error|exception))\b",
    re.IGNORECASE,
)
"""Words that programs print instead of a value if the case failed."""
_NAME_OF_JOB = "job"
_COUNTS = MOMENTS.union(
    "timestep timesteps index idx id no line row time timestamp date datetime elapsed request request_id "
    "uuid trial samples_done".split()
)
"""Names of what a series runs over: its records are no cases."""
PROGRESS = MOMENTS | {"training_iteration"}
"""Names of the progress of a case. They are not measured, and no parameters if other parameters identify the cases."""
_DIGIT = lazy_pattern("[0-9]")
_LABEL = "row"  # the column of a table with the labels of its rows, where it has no name
_LONG = 64  # cases of one parameter that counts up by one or names each case: rather a list than a sweep
_LONG_TEXT = 64  # characters: a longer string describes a case
MOST_VARIANTS = 8
_LEAST_OF_SWEEP = 3


def sweeps_in(records: Sequence[tuple[Cell, ...]]) -> Iterator[slice]:
    """Yield the sections of records that each begin with the same case: sweeps of different kinds.

    Their lines have the same names, and do not print the kind. Sweeps are over the same cases: if less than half of the
    cases of a section are in the first one, or more than half of the first one's are missing, all are one sweep. But
    numbers that grow and then begin again at a smaller one are several sweeps, whatever they are over.
    """
    if begins := _growing(records):
        yield from (slice(begin, end) for begin, end in pairwise([*begins, len(records)]))
        return
    begins = [0]
    for place in range(1, len(records)):
        if records[place] == records[begins[-1]] != records[place - 1]:
            begins.append(place)
    found = [slice(begin, end) for begin, end in pairwise([*begins, len(records)])]
    first, *others = (set(records[stretch]) for stretch in found)
    are_alike = all(2 * len(first & other) >= max(len(first), len(other)) for other in others)
    yield from found if are_alike else [slice(0, len(records))]


def _growing(records: Sequence[tuple[Cell, ...]]) -> list[int]:
    """Return where sweeps over one number begin, if there are several and it grows in each of them; else []."""
    if any(len(case) != 1 or not isinstance(case[0], float) for case in records):
        return []
    begins = [0, *(k for k in range(1, len(records)) if records[k] <= records[k - 1])]
    lengths = [end - begin for begin, end in pairwise([*begins, len(records)])]
    return begins if len(begins) > 1 and min(lengths) >= _LEAST_OF_SWEEP else []


def parameters_of(columns: dict[str, list[Cell]], units: dict[str, str]) -> tuple[list[str], dict[str, Cell]]:
    """Return the names that identify records, and the settings common to all; no parameters if they are a series."""
    settings = {name: cells[0] for name, cells in columns.items() if _is_setting(cells, units[name])}
    moments = [name for name, cells in columns.items() if _is_moment(name, cells)]
    trial = [*_number_of_trials(columns), *(name for name in columns if _counts_values(name, columns))]
    leading = _leading({n: cells for n, cells in columns.items() if n not in {*settings, *moments, *trial}}, units)
    moments += [name for name, cells in columns.items() if _counts_up(name, cells)]
    if _is_series(leading, columns) or (moments and not _has_work(leading, columns)):
        return [], {}
    others = {*leading, *settings, *moments, *trial}
    later = {name: cells for name, cells in columns.items() if name not in others}
    sizes = [n for n, cells in later.items() if CONFIGURES.fullmatch(n) and _is_whole(cells, units[n])]
    chosen = [n for n in later if _is_chosen(n, units)]
    if not leading:  # what is measured may be printed first
        few = max(MOST_VARIANTS, len(next(iter(columns.values()))) // 2)  # else each record has a name of its own
        words = [n for n, cells in later.items() if are_words(cells) and _is_open(n, cells) and len({*cells}) <= few]
        leading = [n for n in later if n in {*sizes, *chosen, *words}]
        if words and not _distinguish(leading, columns):  # columns `actor_loss`, `think` of the rates `1e-5`, `1e-6`
            round_ = [n for n in takewhile(lambda n: n != words[-1], later) if _are_round(later[n], units[n])]
            leading = [n for n in later if n in {*leading, *round_}]
        if not _distinguish(leading, columns) or _is_series(leading, columns):
            return [], {}
    elif not _distinguish(leading, columns):
        leading = _with_later_names(leading, sizes, later, columns)
    leading += [n for n in chosen if n not in leading]
    if not _distinguish(leading, columns):  # two trials of one choice
        leading += [n for n, cells in later.items() if TRIAL.fullmatch(n) and are_words(cells)]
    for name in reversed(leading.copy()):
        if _is_redundant(name, leading, columns):
            leading.remove(name)
    return leading, settings


def _with_later_names(
    leading: list[str], sizes: list[str], later: dict[str, list[Cell]], columns: dict[str, list[Cell]]
) -> list[str]:
    """Return parameters that do not identify the records, with those that are printed after what was measured."""
    leading = [*leading, *sizes]
    work = [n for n, cells in later.items() if NAMES_WORK.fullmatch(n) and are_words(cells)]
    if (
        not _distinguish(leading, columns)
        and _distinguish(work, columns)
        and not any(map(CONFIGURES.fullmatch, leading))
    ):
        return work  # a profile counts the calls before it names the function
    variants = [n for n, cells in later.items() if n not in leading and _names_variants(n, cells)]
    is_known = _distinguish(leading, columns) or not _distinguish([*leading, *variants], columns)
    return leading if is_known else [*leading, *variants]


def _counts_values(name: str, names: Collection[str]) -> bool:
    """Return whether a number is how many values statistics are of: `gemv_n` beside `gemv_min` and `gemv_p50`."""
    of = name.removesuffix("_n").removesuffix("_count")
    statistics = [other for other in names if other.startswith(f"{of}_") and is_statistic(other.removeprefix(f"{of}_"))]
    return of != name and len(statistics) > 1


def _leading(columns: dict[str, list[Cell]], units: dict[str, str]) -> list[str]:
    """Return the names before the measured quantities."""
    leading: list[str] = []
    for name, cells in columns.items():
        may_follow = are_words(cells) or _is_chosen(name, units) or _is_degree(name, cells, leading, columns, units)
        if not _is_open(name, cells):
            continue
        is_size = units[name] == "B" and None not in cells and not _SIZES.isdisjoint(words_of(name))
        if not (may_follow or is_size or _is_whole(cells, units[name])):
            break
        may_follow |= CONFIGURES.fullmatch(name) is not None and name.lower() not in PROGRESS
        if _distinguish(leading, columns) and not may_follow:
            break
        leading.append(name)
        if name == _NAME_OF_JOB and _distinguish(leading, columns):
            break  # its state and exit code are its outcome
    return leading


def _distinguish(names: Sequence[str], columns: dict[str, list[Cell]]) -> bool:
    """Whether the values of these columns together are others in each record."""
    number = len(next(iter(columns.values()), []))
    return bool(names) and len(set(zip(*(columns[name] for name in names), strict=True))) == number


def _is_chosen(name: str, units: dict[str, str]) -> bool:
    return _CHOSEN.fullmatch(name) is not None and not units[name]


def _is_degree(
    name: str, cells: Sequence[Cell], leading: Sequence[str], columns: dict[str, list[Cell]], units: dict[str, str]
) -> bool:
    """Whether numbers that are not whole configure records that the parameters before them do not identify."""
    are_numbers = all(isinstance(x, float) for x in cells) and not units[name]
    return _DEGREE.fullmatch(name) is not None and are_numbers and not _distinguish(leading, columns)


def _are_round(cells: Sequence[Cell], unit: str) -> bool:
    """Whether numbers were chosen, whatever their name: without a unit, of one digit each, and with values repeated."""
    are_numbers = not unit and all(isinstance(x, float) for x in cells)
    return are_numbers and len(set(cells)) < len(cells) and all(float(f"{x:.0e}") == x for x in cells)


def _number_of_trials(columns: dict[str, list[Cell]]) -> list[str]:
    """Return the column that numbers the trials of a search, if columns are named as choices of a search."""
    begins, number = _TRIAL_NAMES
    return [number] if number in columns and any(name.startswith(begins) for name in columns) else []


def _has_work(leading: Sequence[str], columns: dict[str, list[Cell]]) -> bool:
    """Whether records with a time of writing are cases all the same: strings and sizes identify them."""
    return _distinguish(leading, columns) and any(are_words(columns[name]) for name in leading)


def _is_moment(name: str, cells: Sequence[Cell]) -> bool:
    """Whether a column has the time at which records were written, or their durations in the form `40:02:47`."""
    return name.lower() in _MOMENTS or (name.lower() == "time" and are_words(cells))


def _counts_up(name: str, cells: Sequence[Cell]) -> bool:
    """Whether a column counts the moments of records from the first to the last, after what was measured too."""
    numbers = [x for x in cells if isinstance(x, float)]
    is_counted = name.lower() in MOMENTS and name[-1] != "s" and len(cells) == len(numbers) > 2
    changes = {b - a for a, b in pairwise(numbers)} if is_counted else {0.0}
    return len(changes) == 1 and min(changes) > 0


def _names_variants(name: str, cells: Sequence[Cell]) -> bool:
    """Whether a few words name the variant of each record, and not its outcome."""
    is_known = are_words(cells) and _is_open(name, cells) and not any(is_failure(x) for x in cells)
    return is_known and 1 < len(set(cells)) <= MOST_VARIANTS


def are_words(cells: Sequence[Cell]) -> bool:
    """Return whether all cells are words, or empty."""
    return all(isinstance(x, str) or x is None for x in cells)


def is_outcome(name: str, cells: Sequence[Cell]) -> bool:
    """Whether a column has the outcome of each case in words."""
    said = any(x and _OUTCOMES.match(x.strip()) for x in cells if isinstance(x, str))
    return _OUTCOME.fullmatch(name) is not None and are_words(cells) and said


def _is_open(name: str, cells: Sequence[Cell]) -> bool:
    """Whether a column may be a parameter: it is neither the number of a trial, nor a unit, nor an outcome."""
    return TRIAL.fullmatch(name) is None and name.lower() not in _UNIT and not is_outcome(name, cells)


def _is_setting(cells: Sequence[Cell], unit: str) -> bool:
    """Whether all records print the same word or whole number."""
    return len(set(cells)) == 1 and (isinstance(cells[0], str) or _is_whole(cells, unit))


def _is_redundant(name: str, leading: Sequence[str], columns: dict[str, list[Cell]]) -> bool:
    """Whether other parameters identify the records as well, and this one names or describes each of them.

    A name is a string of its own for each record, such as its file. A description is a long string.
    """
    cells = columns[name]
    others = [columns[n] for n in leading if n != name]
    is_own = all(isinstance(x, str) for x in cells) and len(set(cells)) == len(cells)
    describes = are_words(cells) and any(len(x) > _LONG_TEXT for x in cells if isinstance(x, str))
    if not others or not (is_own or describes):
        return False
    return len(set(zip(*others, strict=True))) == len(set(zip(*others, cells, strict=True)))


def follows(name: str, cells: Sequence[Cell], unit: str, parameters: Sequence[Sequence[Cell]]) -> bool:
    """Whether numbers follow from one of the parameters, with values that several records share.

    Such whole numbers configure the records; so do others if no unit and no name says that they are measured.
    """
    is_measured = unit or None in cells or better(name, "") is not None
    if are_words(cells) or (is_measured and not _is_whole(cells, unit)):
        return False
    mappings = (dict(zip(values, cells, strict=True)) for values in parameters)
    return any(
        2 * len(value_of) <= len(cells) and all(value_of[x] == cell for x, cell in zip(values, cells, strict=True))
        for values, value_of in zip(parameters, mappings, strict=True)
    )


def _is_whole(cells: Sequence[Cell], unit: str) -> bool:
    """Whether cells are whole numbers of things, or sizes in bytes, with words such as `auto` among them."""
    numbers = [x for x in cells if isinstance(x, float)]
    return unit in ("", "1", "B") and None not in cells and all(x.is_integer() for x in numbers) and bool(numbers)


def _is_series(names: Sequence[str], columns: dict[str, list[Cell]]) -> bool:
    """Whether records run over steps, moments or requests."""
    counted = [name for name in names if _counts(name) and not (name == _LABEL and are_words(columns[name]))]
    counted = [name for name in counted if not _configures(name, names, columns)]
    if any(not isinstance(x, str) or _DIGIT.search(x) for name in counted for x in columns[name] if x is not None):
        return True  # `wall time` above `forward` and `backward` names what was timed
    cells = columns[names[0]] if names else []
    if len(names) == 1 and _is_progress(names[0], columns):
        return True
    if len(names) != 1 or len(cells) < _LONG:
        return False
    if all(isinstance(x, str) for x in cells):
        return len(set(cells)) == len(cells)
    return all(isinstance(b, float) and isinstance(a, float) and b - a == 1 for a, b in pairwise(cells))


def _configures(name: str, names: Sequence[str], columns: Mapping[str, list[Cell]]) -> bool:
    """Whether numbers of things, `steps`, are a setting: another column names variants that each have all of them."""
    numbers = set(columns[name])
    labels = [columns[other] for other in names if are_words(columns[other])]
    pairs = [(len({*zip(columns[name], cells, strict=True)}), len({*cells})) for cells in labels]
    is_setting = name.lower().endswith("s") and len(numbers) <= _MOST_NUMBERS
    return is_setting and any(found == len(numbers) * variants > variants for found, variants in pairs)


def _is_progress(name: str, columns: Mapping[str, list[Cell]]) -> bool:
    """Whether numbers grow up to a total of their name: `batch 5 of 250`, then `batch 10 of 250`."""
    numbers = [number_in(cell) for cell in columns[name]]
    totals = {number_in(cell) for each in (f"{name}s", f"{name}es", f"{name}_total") for cell in columns.get(each, ())}
    return len(totals) == 1 and totals.pop() >= numbers[-1] and all(a < b for a, b in pairwise(numbers))


def _counts(name: str) -> bool:
    """Whether a series runs over numbers of this name; `num_steps` configures."""
    words = words_of(name)
    if words[-1:] == ["batch"] and words[0] in EVALUATIONS:  # `val_batch`, of `Test: [20/196]`
        return True
    is_number_of = words[:1] in (["num"], ["n"], ["max"])
    return name.lower() in _COUNTS or (not is_number_of and bool(_COUNTS.intersection(words[-1:])))


def is_failure(cell: Cell) -> bool:
    """Whether a cell marks its case as failed: NaN, infinity, or an error word instead of a number."""
    return not math.isfinite(cell) if isinstance(cell, float) else bool(cell and _FAILED.match(cell))


def number_in(cell: Cell) -> float:
    """Return the number in a cell; NaN for a word or none."""
    return cell if isinstance(cell, float) else math.nan
