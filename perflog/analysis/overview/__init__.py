"""The overview: what ran, how fast, where the time goes, what not to trust, and what to run next.

`overview(log)` answers the questions that a reader of a log has first; `output.presenters.overview` prints it on one
screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from statistics import stdev
from typing import TYPE_CHECKING, Never

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.job_endings import Ending, endings
from perflog.analysis.job_hosts import hosts_in_words, run_of_hosts, without_other_hosts
from perflog.analysis.job_members import logs_beside
from perflog.analysis.lint import Finding, findings
from perflog.analysis.lint.log_lines import GUESSED
from perflog.analysis.lint.steps import STOPPED
from perflog.analysis.overview.base_rows import base_rows
from perflog.analysis.overview.doubts import ENDED, Doubt, doubts
from perflog.analysis.overview.facts.energy_facts import energy_facts
from perflog.analysis.overview.facts.folder_answers import folder_answers, folder_metric, scores, slowdowns
from perflog.analysis.overview.facts.job_course import course_of_job
from perflog.analysis.overview.facts.load_facts import knee, slow_server
from perflog.analysis.overview.facts.log_facts import process_summaries
from perflog.analysis.overview.facts.scaling_facts import by_size
from perflog.analysis.overview.facts.setting_facts import settings_beside
from perflog.analysis.overview.facts.sweep_facts import best_configurations
from perflog.analysis.overview.facts.targets import targets_reached
from perflog.analysis.overview.facts.telemetry_facts import telemetry_beside
from perflog.analysis.overview.facts.version_changes import since_when
from perflog.analysis.overview.hosts import findings_of_hosts, hosts_apart
from perflog.analysis.overview.next_commands import diagnosis_of, next_commands
from perflog.analysis.overview.outliers import extremes, outliers
from perflog.analysis.overview.parts import Part, parts
from perflog.analysis.overview.ranks_apart import blocks_apart, ranges_apart, ranks_apart, ranks_named, ranks_spread
from perflog.analysis.overview.reasons import bottleneck, bottlenecks, late_rank_of, time_saved, why_slower
from perflog.analysis.overview.run_figures import ELAPSED, TOTAL, RunFigure, run_figures
from perflog.analysis.overview.run_groups import RunGroup, apart, no_repeats, run_groups
from perflog.analysis.overview.subject import common_name, subject
from perflog.analysis.repeats import Difference, Result, differing
from perflog.analysis.run_stops import last_stop
from perflog.formats.registry import known
from perflog.grouping import grouped
from perflog.log import Log, RunKey
from perflog.metrics import Options, Tables
from perflog.metrics.attempts import attempts
from perflog.metrics.benchmarks.case_tables import case_tables
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.cause import Cause
from perflog.metrics.many_runs.scaling_studies import studies
from perflog.metrics.traces.operators.recorded_operators import companions
from perflog.opening import ARE_GUESSES
from perflog.opening.given_runs import Given, log_of
from perflog.parsing.input.log_names import base_name
from perflog.providers import provider
from perflog.tables.nulls import nullable_frame
from perflog.tables.schema import TABLES
from perflog.units import count, first_few, show_change

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Overview", "overview"]


_MARKS = 4  # runs that are named one by one
_OF_PROGRAM = 4  # sentences on the only run of a program
_EACH = 3  # runs that each have their bottlenecks shown
_EXPLAINED = 10  # rows that are searched for causes
_TELLING = 0.03  # of the step time: a smaller difference is not explained


class Overview(Struct, frozen=True):
    """What an overview tells.

    Attributes:
        names: How the reader names these runs.
        what: What ran, in words: program, number of runs and steps, ranks, device.
        lines: Number of lines: total, read, context, unread. `read_figures`: of figures, empty for traces.
        groups: The rows: runs, or groups of repeats.
        figures: How fast they were; the first is the headline.
        base: Index of the group that each group is compared with, by its index; the base itself is not in it.
        parts: Where the time goes in the only run, or in the first of repeats.
        failures: How attempts ended, and failures after which the job went on, in the order of the logs.
        reasons: What holds that run up, or why the slowest run is slower than its base, in sentences.
        doubts: What not to trust, the most severe first.
        next: Commands that answer the next question.
        warnings: What went wrong while the logs were read.
        keys: The names of each run, by run id.
        find_causes: Returns what takes the time of the first run of each row or holds it up.
    """

    names: Sequence[str]
    what: str
    lines: Mapping[str, int]
    read_figures: Mapping[str, int]
    groups: Sequence[RunGroup]
    figures: Sequence[RunFigure]
    base: Mapping[int, int]
    parts: Sequence[Part]
    failures: Sequence[Ending]
    reasons: Sequence[str]
    doubts: Sequence[Doubt]
    next: Sequence[str]
    warnings: Sequence[str]
    keys: Mapping[str, RunKey]
    find_causes: Callable[[], Sequence[Cause]]

    def __repr__(self) -> str:
        return f"<perflog.Overview of {' '.join(self.names)}: {self.what}>"

    def _repr_html_(self) -> str:
        """The metrics as a table, then parts, reasons and what not to trust. Jupyter calls it."""
        html: str = provider("notebook answers").overview_html(self)
        return html

    @property
    def run_noun(self) -> str:
        """What the runs of the rows are called: attempts where each row of several runs is a job."""
        are_jobs = all(group.is_job or len(group.runs) == 1 for group in self.groups)
        return "attempts" if are_jobs and any(group.is_job for group in self.groups) else "runs"

    @property
    def differing_settings(self) -> Sequence[str]:
        """Names of the settings in which the rows differ."""
        return list(self.groups[0].settings) if self.groups else []

    @property
    def causes(self) -> Sequence[Cause]:
        """What takes the time of the first run of each row or holds it up, what binds it first: see metric `causes`."""
        return self.find_causes()

    def table(self) -> pd.DataFrame:
        """Return the rows with their figures in base units.

        Returns:
            Columns `mark`, `name`, `runs` (their number), the settings in which the rows differ, each metric (in the
            unit of `figures`), and `change` of the headline against the base (1 is 100 %).
        """
        import pandas as pd

        rows = [
            {"mark": group.mark, "name": group.name, "runs": len(group.runs), **group.settings}
            | {figure.name: self.value(figure, group) for figure in self.figures}
            | {"change": self.change(place)}
            for place, group in enumerate(self.groups)
        ]
        return nullable_frame(pd.DataFrame(rows))

    def value(self, figure: RunFigure, group: RunGroup) -> float | None:
        """Return a group's value of a metric: of its run, or the mean over its runs; None if none has it.

        Each attempt of a job goes on where the one before ended: of a loss, the last one counts.
        """
        values = [figure.values[run] for run in group.runs if run in figure.values]
        if values and group.is_job and figure.is_last:
            return values[-1]
        return sum(values) / len(values) if values else None

    def spread(self, figure: RunFigure, group: RunGroup) -> float | None:
        """Return how sure a value is, relative to it: half of the interval of a single run, or the SD over the runs."""
        if len(group.runs) == 1:
            return figure.spread.get(group.runs[0])
        if group.is_job and figure.is_last:
            return None
        values = [figure.values[run] for run in group.runs if run in figure.values]
        mean = sum(values) / len(values) if values else 0.0
        return stdev(values) / abs(mean) if len(values) > 1 and mean and isfinite(mean) else None

    def change(self, place: int) -> float | None:
        """Return the relative difference of a group's headline from its base."""
        if place not in self.base or not self.figures:
            return None
        value, base = (self.value(self.figures[0], self.groups[i]) for i in (place, self.base[place]))
        return value / base - 1 if value is not None and base and isfinite(value / base) else None

    @property
    def outcome(self) -> list[str]:
        """Findings to know before any speed, such as a failure that ended the run or a loss that is NaN."""
        marks = {run: group.mark for group in self.groups for run in (*group.runs, *group.hosts)}
        found = [doubt for doubt in self.doubts if doubt.is_outcome]
        if (
            len(self.groups) > 1
            and all(len(group.runs) == 1 for group in self.groups)
            and sum(len(doubt.runs) for doubt in found) <= _MARKS
        ):
            grave = [each for doubt in found for each in doubt.findings if each.severity != "note"]
            first = {(each.code, each.run): each for each in reversed(grave)}  # of attempts, what ended the last one
            return [f"{marks[each.run]}: {each.message}" for each in grave if first[each.code, each.run] is each]
        return [self.in_words(doubt) for doubt in found]

    def figure_column(self, figure: RunFigure) -> list[str]:
        """Return the name of a metric, with a mark if it is doubted, then its value in each group as a string."""
        digits = 4 if figure is self.figures[0] else 3
        texts, several = [], False
        for group in self.groups:
            value, spread = self.value(figure, group), self.spread(figure, group)
            several = several or (len(group.runs) > 1 and spread is not None)
            text = figure.text(value, digits)
            if len(group.runs) == 1 and group.runs[0] in {**figure.levels, **figure.across}:
                texts.append(figure.text_of(group.runs[0], digits))
                continue
            texts.append(text if spread is None else f"{text} ± {100 * spread:.1f} %")
        doubted = any(figure.name in doubt.figures for doubt in self.doubts if doubt.severity != "note")
        return [figure.name + " ± sd" * several + " !" * doubted, *texts]

    def change_column(self) -> list[str]:
        """Return the name of the base, then the change of each group against it."""
        bases = set(self.base.values())
        title = f"vs {self.groups[bases.pop()].mark}" if len(bases) == 1 else "vs base"
        changes = map(self.change, range(len(self.groups)))
        return [title, *map(show_change, changes)]

    def in_words(self, doubt: Doubt) -> str:
        """Return what one rule found, after the figures that it is about; of a single run the sentence itself."""
        names = [figure.name for figure in self.figures if figure.name in doubt.figures]
        about = f"{', '.join(names)}: " if names and doubt.severity != "note" else ""
        total = sum(len(group.runs) for group in self.groups)
        if total == 1:
            return f"{about}{doubt.message}"
        marks = [group.mark for group in self.groups if {*group.runs, *group.hosts} & {*doubt.runs}]
        few = len(marks) <= _MARKS and total == len(self.groups)
        noun = self.run_noun
        where = ", ".join(marks) if few else f"{len(doubt.runs)} of {total} {noun}"
        kinds = f": {self._failed_by(doubt.runs)}" if doubt.code == ENDED else ""
        return f"{about}{doubt.title} ({f'all {noun}' if len(doubt.runs) == total else where}){kinds}"

    def _failed_by(self, runs: Collection[str]) -> str:
        """Return what ended runs, the most frequent first, with the number of runs of each."""
        last = {ending.run: ending.title for ending in self.failures if ending.ends_attempt and ending.run in runs}
        numbers = Counter(last.values()).most_common()
        return first_few([f"{title} ({number})" if number > 1 else title for title, number in numbers], _MARKS)


def overview(
    log: Given,
    *names: str,
    warmup: int | None = None,
    gpu: str | None = None,
    peak_tflops: float | None = None,
    flops: str | None = None,
    targets: Mapping[str, float] | None = None,
    gpu_hour: float | None = None,
    **unknown: Never,
) -> Overview:
    """Return what ran, how fast, where the time goes, what not to trust, and what to ask next.

    Args:
        log: What `perflog.read` or `perflog.load` returns; or a path, a glob, a DataFrame, a list of these, or a
            mapping of names to them.
        names: How the reader names these runs: for the commands of `next`. By default by their log, or its folder.
        warmup: Number of steps to cut at the start of each run. Default: detected from the step times.
        gpu: Name of the GPU, such as "H100 SXM", for MFU.
        peak_tflops: Dense peak of one GPU in TFLOP/s, instead of the peak that perflog knows for `gpu`.
        flops: Id of the FLOP convention. Default: the one that the log's format declares.
        targets: Values to reach, by the name of the series, such as {"val_loss": 3.28}: `reasons` tells when.
        gpu_hour: Price of one GPU for an hour, in any currency: `reasons` tells what a token, else a sample, costs.
        **unknown: Nothing: any other keyword raises UsageError, which names the nearest option.

    Raises:
        UsageError: The GPU, the FLOP convention, the series of a target or an option is not known.

    Example:
        >>> answer = perflog.overview(perflog.find_runs("reference:nvprof.txt"))
        >>> answer.figures[0].name
        'GPU work'
    """
    options = Options.of(
        warmup=warmup, gpu=gpu, peak_tflops=peak_tflops, flops=flops, targets=targets, gpu_hour=gpu_hour, **unknown
    )
    log = log_of(log)
    return overview_of(log, Tables(log), options, names)


class _Hosts(Struct, frozen=True):
    """The whole log of which an overview is a part, and the runs of other hosts that it leaves out."""

    log: Log
    others: Mapping[str, str]


def overview_of(
    log: Log, tables: Tables, options: Options, names: Sequence[str] = (), hosts: _Hosts | None = None
) -> Overview:
    """Return the overview of a log from its tables; see `overview`. `hosts`: what else was left out of the log."""
    names = names or (common_name(log),)
    accompanying = companions(tables)
    if accompanying:  # what they fill in shows in the runs that they belong to
        kept = [key for key in log.run_keys if key.id not in accompanying]
        answer = overview_of(log.select(*kept), tables.only([key.id for key in kept]), options, names)
        return replace(
            answer, what=f"{answer.what}, joined with {count(len(accompanying), 'execution trace')}",
            lines=log.line_account, read_figures=log.figure_account, warnings=log.warnings,
        )  # fmt: skip
    if other_hosts := run_of_hosts(tables):
        return _of_hosts(log, tables, options, names, other_hosts)
    figures = run_figures(tables, options)
    if values := _values_beside(tables, figures):
        return _without_values(log, tables, options, names, values, hosts)
    beside = logs_beside(tables, log.run_keys, {run for figure in figures for run in figure.values})
    main = log.select(*(key for key in log.run_keys if key.id not in beside)) if beside else log
    main_tables = tables.only([key.id for key in main.run_keys]) if beside else tables
    groups = run_groups(main)
    attempts_of = attempts(tables)
    together = folder_metric(tables, options)
    differences = [] if together else _differences(tables, groups, figures, options)
    if differences:
        groups = apart(groups, log, [each.runs for each in differences])
    elif studies(tables, options):  # runs of other sizes are no repeats
        groups = apart(groups, log, [group.runs for group in groups if _are_of_several_logs(log, group)])
        groups = by_size(groups, tables, options)
    bases = {} if figures and figures[0].counts else base_rows(tables, groups, options)
    attempted = any(group.runs[0] in attempts_of for group in groups)
    if attempted or studies(tables, options):  # attempts of a job, and sizes, are not compared run by run unless asked
        bases = {}
    if figures:
        bases = {i: base for i, base in bases.items() if all(_has(figures[0], groups[each]) for each in (i, base))}
    focus = groups[0].runs[0] if len(groups) == 1 else None
    found = findings(tables, options)
    return Overview(
        names=names,
        what=", ".join([*subject(main_tables, main), *_more_logs(log, beside, hosts)]),
        lines=log.line_account,
        read_figures=log.figure_account,
        groups=groups,
        figures=figures,
        base=bases,
        parts=parts(tables.only([focus]), focus, options) if focus else (),
        failures=endings(tables),
        reasons=[
            *targets_reached(tables, groups, options),
            *course_of_job(tables, groups, options),
            *(() if differences else best_configurations(tables, options)),  # else the same settings are no repeats
            *_stopped_early(tables, groups, found),
            *no_repeats(differences, groups),
            *_reasons(log, tables, groups, figures, bases, options),
            *telemetry_beside(tables, log, beside, options),
            *energy_facts(tables, groups, options),
            *settings_beside(main_tables, groups),
        ],
        doubts=doubts(_not_warned_of(findings_of_hosts(log, tables, found, beside), log)),
        next=next_commands(
            names, log, groups, tables, _ranks_something(tables, figures), together, _in_common(figures, groups)
        ),
        warnings=log.warnings,
        keys={key.id: key for key in log.run_keys},
        find_causes=lambda: _causes(tables, groups, options),
    )


def _more_logs(log: Log, beside: Mapping[str, str], hosts: _Hosts | None) -> Iterator[str]:
    """Yield how many logs say more of the jobs, or are of other hosts."""
    whole, others = (hosts.log, hosts.others) if hosts is not None else (log, {})
    if more := {**others, **beside}:
        yield hosts_in_words(whole, more)


def _values_beside(tables: Tables, figures: Sequence[RunFigure]) -> set[str]:
    """Return the runs of no known program that only print values which answer nothing, where others have a metric."""
    ranked = {run for figure in figures for run in figure.values}
    if not ranked:
        return set()
    values = tables.rows("values")
    telling = {run for name in TABLES.keys() - {"runs", "lines", "values"} for run in tables.counts(name)}
    telling |= ranked | set(values.where(values.known("step")).counts("run"))
    formats = {run: known().get(name) for run, name in tables.rows("runs").records("run", "format")}
    return {run for run, form in formats.items() if form is not None and form.generic and run not in telling}


def _without_values(
    log: Log,
    tables: Tables,
    options: Options,
    names: Sequence[str],
    values: Collection[str],
    hosts: _Hosts | None,
) -> Overview:
    """Return the overview of runs without some logs that only print values."""
    kept = [key for key in log.run_keys if key.id not in values]
    answer = overview_of(log.select(*kept), tables.only([key.id for key in kept]), options, names, hosts)
    logs = list(dict.fromkeys(base_name(key.log) for key in log.run_keys if key.id in values))
    beside = f"Not counted as a run, since no metric uses its values: {first_few(logs, 3)}."
    return replace(
        answer, lines=log.line_account, read_figures=log.figure_account, reasons=[*answer.reasons, beside],
        keys={key.id: key for key in log.run_keys},
    )  # fmt: skip


def _of_hosts(
    log: Log, tables: Tables, options: Options, names: Sequence[str], other_hosts: Mapping[str, str]
) -> Overview:
    """Return the overview of logs of which some are of other hosts of a job: each job has one row."""
    kept = without_other_hosts(log, tables)
    answer = overview_of(kept, tables.only([key.id for key in kept.run_keys]), options, names, _Hosts(log, other_hosts))
    failed = [diagnosis] if (diagnosis := diagnosis_of(names, tables)) else []
    hosts_of = grouped((leader, run) for run, leader in other_hosts.items())
    return replace(
        answer,
        groups=[
            replace(group, hosts=tuple(host for run in group.runs for host in hosts_of.get(run, ())))
            for group in answer.groups
        ],
        lines=log.line_account,
        read_figures=log.figure_account,
        failures=endings(tables),
        reasons=[*hosts_apart(log, run_figures(tables, options), other_hosts), *answer.reasons],
        doubts=doubts(findings_of_hosts(log, tables, findings(tables, options), other_hosts)),
        next=list(dict.fromkeys([*failed, *answer.next])),
        keys={key.id: key for key in log.run_keys},
    )


def _stopped_early(tables: Tables, groups: Sequence[RunGroup], found: Sequence[Finding]) -> Iterator[str]:
    """Where the only run stops before its last step, or some ranks do, if no failure or finding says so."""
    if len(groups) != 1 or len(groups[0].runs) > 1 or any(not ending.goes_on for ending in endings(tables)):
        return
    stop = last_stop(tables)
    if stop is None:
        return
    if stop.is_early and not any(each.code == STOPPED for each in found):
        yield f"{stop.sentence[0].upper()}{stop.sentence[1:]}."
    yield from (f"{text[0].upper()}{text[1:]}." for text in stop.evidence)


def _not_warned_of(found: Sequence[Finding], log: Log) -> list[Finding]:
    """Return the findings without guessed names where a warning says that the log was read under them."""
    is_warned = any(ARE_GUESSES in text for text in log.warnings)
    return [each for each in found if not (is_warned and each.code == GUESSED)]


def _causes(tables: Tables, groups: Sequence[RunGroup], options: Options) -> list[Cause]:
    """The causes of the first run of each row; none where there are many rows."""
    first = [group.runs[0] for group in groups]
    if not first or len(first) > _EXPLAINED:
        return []
    causes_of_runs = causes_by_run(tables.only(first), options)
    return [cause for run in first for cause in causes_of_runs.get(run, ())]


def _ranks_something(tables: Tables, figures: Sequence[RunFigure]) -> bool:
    """Whether a metric shows which run is better, or which case of a benchmark."""
    return any(figure.better for figure in figures) or bool(case_tables(tables))


def _differences(
    tables: Tables, groups: Sequence[RunGroup], figures: Sequence[RunFigure], options: Options
) -> list[Difference]:
    """The rows with runs that are no repeats. A total does not count: it depends on how long a run trained."""
    first = figures[0] if figures and figures[0].better and figures[0].name not in (TOTAL, ELAPSED) else None
    result = None if first is None else Result(first.name, first.unit, first.values)
    repeats = (group.runs for group in groups if not group.is_job)
    return differing(tables, repeats, options.warmup, result)


def _are_of_several_logs(log: Log, group: RunGroup) -> bool:
    return len({key.sha256 for key in log.run_keys if key.id in group.runs}) == len(group.runs) > 1


def _in_common(figures: Sequence[RunFigure], groups: Sequence[RunGroup]) -> bool:
    """Whether any metric is known of two rows or more."""
    return any(sum(_has(figure, group) for group in groups) > 1 for figure in figures)


def _has(figure: RunFigure, group: RunGroup) -> bool:
    return any(run in figure.values for run in group.runs)


def _reasons(
    log: Log,
    tables: Tables,
    groups: Sequence[RunGroup],
    figures: Sequence[RunFigure],
    bases: Mapping[int, int],
    options: Options,
) -> list[str]:
    """Of one run what holds it up; of several why the slowest is slower than its base."""
    if not groups:
        return []
    over_time = list(since_when(tables, options))
    steps = next((figure for figure in figures if figure.name == "step"), None)
    if not over_time and steps and all(len(group.runs) == 1 for group in groups):
        runs = [group.runs[0] for group in groups]
        pairs = [pair for index, base in bases.items() for pair in ((base, index), (index, base))]
        ratios = {
            (fast, slow): steps.values[runs[slow]] / steps.values[runs[fast]]
            for fast, slow in pairs
            if runs[fast] in steps.values and runs[slow] in steps.values
        }
        fast, slow = max(ratios, key=lambda pair: ratios[pair], default=(0, 0))
        if fast != slow and ratios[fast, slow] > 1 + _TELLING:
            pair = tables.only([runs[fast], runs[slow]])  # the metrics of all other runs say nothing about these
            explained = why_slower(pair, runs[fast], runs[slow], (groups[fast].mark, groups[slow].mark), options)
            saved = time_saved(pair, runs[slow], options, groups[slow].mark)
            late = late_rank_of(tables.only([runs[slow]]), runs[slow], options, groups[slow].mark)
            return [*late, *explained, *saved, *slowdowns(tables, groups, options)]
    far_worse = [] if over_time else list(outliers(figures, groups, log))  # runs of another level are no outliers
    together = [*over_time, *folder_answers(tables, groups, options), *slowdowns(tables, groups, options)]
    together += [*knee(tables), *slow_server(tables, groups, options)]
    folder_scores = list(scores(tables, options))
    if together or len(groups) > 1:
        return [*together, *folder_scores, *far_worse] or list(_of_each(tables, groups, options))
    first = groups[0].runs[0]
    first_tables = tables.only([first])
    is_single = len(groups[0].runs) == 1
    slow_ranks = [*ranks_apart(first_tables, first), *ranks_named(first_tables, first)] if is_single else []
    if is_single and not slow_ranks:
        slow_ranks = list(blocks_apart(first_tables, first))
    return [
        *folder_scores,
        *extremes(figures[:1], log),
        *far_worse,
        *slow_ranks,
        *(ranges_apart(first_tables, first) if is_single and not slow_ranks else ()),
        *bottleneck(first_tables, first, options, is_known=bool(slow_ranks)),
        *(ranks_spread(first_tables, first, figures) if len(groups[0].runs) == 1 else ()),
        *time_saved(first_tables, first, options),
        *(process_summaries(first_tables, first) if len(groups[0].runs) == 1 else ()),
    ]


def _of_each(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """What holds each of a few runs up, where nothing tells what sets them apart; all of the only run of a program."""
    if len(groups) > _EACH or any(len(group.runs) > 1 for group in groups):
        return
    marks: dict[str, list[str]] = {}
    programs = Counter(group.settings.get("format") for group in groups)
    for group in groups:
        (run,) = group.runs
        most = _OF_PROGRAM if programs[group.settings.get("format")] == 1 else 1
        for text in islice(bottlenecks(tables.only([run]), run, options), most):
            marks.setdefault(text, []).append(group.mark)
    for text, text_marks in marks.items():
        yield f"{', '.join(text_marks)}: {text}"
