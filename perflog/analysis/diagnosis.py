"""What ended a job, or holds it up: `perflog diagnose`.

In: tables `failures` and `steps`, what ranks dumped of their collectives, losses that are no numbers, members that are
slower than the others. Out: a `Diagnosis`: one verdict, the culprits with how sure they are, the lines that prove it,
what only followed, and what would settle it.

`job_endings` says how an attempt ended, `failures.first_cause` judges who was first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import fields, replace

from perflog.analysis.culprits import EVIDENCE, Culprit, names_of, text_of
from perflog.analysis.job_endings import STUCK, Ending, endings, joined, located, place_of
from perflog.analysis.job_members import runs_of_jobs
from perflog.analysis.overview.facts.device_facts import held_by_allocator
from perflog.analysis.overview.facts.job_course import drifts, level_changes, spikes
from perflog.analysis.run_names import without_common_folder
from perflog.analysis.run_stops import last_stop
from perflog.analysis.slow_members import slow_members
from perflog.errors import UsageError
from perflog.metrics import Options, Tables, allocator, stuck_ranks
from perflog.metrics.attempts import attempts, last_saved
from perflog.metrics.benchmarks.server_readings import stuck_engines
from perflog.metrics.jobs.goodput import losses_of
from perflog.metrics.jobs.job_intervals import STALL
from perflog.metrics.jobs.stuck_ranks import jobs_of_dumps
from perflog.metrics.jobs.timeline import job_timelines
from perflog.metrics.series.divergence import Divergence, Rise, divergences, rises_before
from perflog.opening.given_runs import Given, log_of
from perflog.parsing.failures.first_cause import LIKELY, NOT_KNOWN, SILENT, SURE, process_of
from perflog.parsing.failures.kinds import is_of_hccl, title_of
from perflog.parsing.failures.rows import FailureRow
from perflog.parsing.input.log_names import base_name
from perflog.providers import provider
from perflog.tables.nulls import none_if_null, row_dicts
from perflog.units import count, first_few, numbered

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log

_OF_HANGS = (None, "collective_timeout", "stuck_watchdog", "remote_exit")
"""Kinds of failures with which a job ends that hangs."""

_OF_A_HANG = (
    "the flight recorder's dumps (TORCH_FR_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1), or `py-spy dump` of the "
    "processes while they hang"
)
_SETTLES = {
    "collective_timeout": _OF_A_HANG,
    "stuck_watchdog": _OF_A_HANG,
    "nccl_error": "NCCL_DEBUG=WARN, and the logs of all nodes",
    "remote_exit": "the output of all ranks (`torchrun --tee 3`), and the kernel's log of each node",
    SILENT: "the kernel's log of its node (`dmesg -T`), and the scheduler's record of the job",
    "gpu_fault": "`nvidia-smi -q` and `dmesg -T` of the node",
    "gpu_error": "CUDA_LAUNCH_BLOCKING=1 names the kernel; `dmesg -T` shows whether the GPU failed",
    "port_error": "the counters of the port, and the log of its switch",
    "link_error": "the counters of both ports (`perfquery`, `ethtool -S`)",
    "killed": "`dmesg -T` of the node: the kernel names the processes that it kills",
    "actor_died": "the log of the worker (`/tmp/ray/session_latest/logs`), and `dmesg -T` of its node",
    "terminated": "the scheduler's record of the job: who sent the signal",
    "rendezvous_timeout": "the logs of all nodes: which of them never started",
    "child_failed": "the output of the failed processes (`torchrun --tee 3`)",
    "first_failed": "the output of the failed process (`torchrun --tee 3`), and `dmesg -T` of its node",
    "task_exit": "the output of the failed task (`srun --label`)",
}


_SEVERAL = 3  # attempts, which have numbers
_SHOWN, _OF_MANY = 6, 3  # culprits with evidence; of more culprits
_NOT_SHOWN = "the messages do not show it"
_OF_EACH = 2  # lines of evidence of each of several culprits


class Diagnosis(Struct, frozen=True):
    """What ended a job or holds it up.

    Attributes:
        names: How the reader names the logs.
        verdict: What ended it, in a sentence.
        kind: Kind of the failure; None if there is none.
        culprits: Ranks, tasks, nodes or GPUs; empty if not known, or if there is no failure.
        reason: Why there is no culprit.
        certainty: sure, likely, one of, unknown.
        why: The reason for the culprits.
        evidence: Lines of the logs.
        followed: What only followed from it.
        settles: What would settle it.
        last_step: The last step before.
        earlier: What ended earlier attempts, in sentences.
        cost: What it cost: time without steps, steps that were done again or are not saved.
        speed: Since which step a run is faster or slower, in sentences.
        loss: Where the loss rises far above its usual values, in sentences.
        benchmark: Program of a benchmark beside the jobs; None for a job.
        memory: Who held the memory of a device that was full, in sentences, where there is a snapshot of its allocator.
    """

    names: Sequence[str]
    verdict: str
    kind: str | None = None
    culprits: Sequence[Culprit] = ()
    reason: str | None = None
    certainty: str = NOT_KNOWN
    why: str = ""
    evidence: Sequence[str] = ()
    followed: str = ""
    settles: str = ""
    last_step: int | None = None
    earlier: Sequence[str] = ()
    cost: str = ""
    speed: Sequence[str] = ()
    loss: Sequence[str] = ()
    benchmark: str | None = None
    memory: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<perflog.Diagnosis of {' '.join(self.names)}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Verdict, culprits, evidence and the other parts as a table. Jupyter calls it."""
        html: str = provider("notebook answers").diagnosis_html(self)
        return html

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"culprits": [culprit.as_json() for culprit in self.culprits]}


def diagnose(log: Given, *names: str) -> Diagnosis:
    """Return what ended a job, or holds it up.

    Args:
        log: The logs of one job: what `perflog.read` or `perflog.load` returns; or a path, a glob, or a list of these.
        names: How the reader names them.

    Raises:
        UsageError: One name, such as a folder, has the logs of several jobs; in a list they are taken for one job.

    Example:
        >>> perflog.diagnose(perflog.find_runs("reference:nvprof.txt")).verdict
        'no failure is reported'
    """
    is_name, log = isinstance(log, str | os.PathLike), log_of(log)
    tables = Tables(log)
    if is_name and (jobs := len(runs_of_jobs(tables, log.run_keys))) > 1:
        help = "`perflog.diagnose_jobs` answers for each; name the logs of one job in a list"
        raise UsageError(f"these are the logs of {jobs:,} jobs", log.name, help)
    return _of_one_job(log, tables, names)


def _of_one_job(log: Log, tables: Tables, names: Sequence[str]) -> Diagnosis:
    logs = {key.id: key.log for key in log.run_keys}
    return _diagnose(tables, logs, names or tuple(dict.fromkeys(map(base_name, logs.values()))))


def diagnose_jobs(log: Given, *names: str, tables: Tables | None = None) -> list[Diagnosis]:
    """Return what ended each job of a folder, or holds it up; benchmarks beside the jobs have an answer of their own.

    Args:
        log: The logs of any jobs, as `diagnose` takes them.
        names: How the reader names them, if they are of one job.
        tables: Their tables, where somebody has them.

    Example:
        >>> [answer.kind for answer in perflog.diagnose_jobs("reference:")][:2]
        [None, None]
    """
    log = log_of(log)
    tables = tables or Tables(log)
    groups = runs_of_jobs(tables, log.run_keys)
    if len(groups) == 1:
        return [_of_one_job(log, tables, names)]
    paths = [key.log for group in groups for key in group.keys]
    shown = {path: base_name(path) for path in paths}
    named = [tuple(dict.fromkeys(shown[key.log] for key in group.keys)) for group in groups]
    if len(set(named)) < len(named):  # of two jobs with logs of the same names, the folders are shown, too
        shown = dict(zip(paths, without_common_folder(paths), strict=True))
    answers = []
    for group in groups:
        logs = {key.id: key.log for key in group.keys}
        its_names = tuple(dict.fromkeys(shown[log] for log in logs.values()))
        answer = _diagnose(tables.only(list(logs)), logs, its_names)
        answers.append(replace(answer, benchmark=group.benchmark))
    return answers


def _diagnose(tables: Tables, logs: Mapping[str, str], names: Sequence[str]) -> Diagnosis:
    """Return what ended the job of some runs; `logs`: by run."""
    speed = [*level_changes(tables, Options(), {}), *drifts(tables, Options(), {})]
    return replace(_ended(tables, logs, names), speed=speed, loss=[*spikes(tables, {})])


def _ended(tables: Tables, logs: Mapping[str, str], names: Sequence[str]) -> Diagnosis:
    """Return what ended the job of some runs, or holds it up."""
    found = endings(tables)
    final = [ending for ending in found if not ending.goes_on]
    ended = [ending for ending in found if ending.goes_on and ending.restarts]
    earlier = [_earlier(ending, logs) for ending in ended]
    timeouts = [row for ending in final for row in ending.rows if row.kind == "collective_timeout"]
    stuck = _stuck(tables, names, timeouts)
    if stuck is not None and all(ending.judged.kind in _OF_HANGS for ending in final):
        return stuck
    chosen = located(joined(final), tables) if final else (ended[-1] if ended else None)
    if chosen is None:
        lost = [each for each in divergences(tables) if each.is_lost]
        if lost:
            return _of_numbers(names, lost[0], list(rises_before(tables, lost[0])))
        texts = count(sum(len(ending.rows) for ending in found), "failure text")
        caught = f"; the program went on after {texts}" if found else ""
        slow = slow_members(tables, Options())
        if slow:
            return _held_up(names, slow)
        stop = last_stop(tables)
        where = f"; {stop.sentence}" if stop is not None else ""
        idle = "".join(f"; {engine.sentence}" for engine in stuck_engines(tables))
        return Diagnosis(
            names, f"no failure is reported{where}{caught}{idle}", reason="the log reports no failure that ended it",
            evidence=stop.evidence if stop is not None else (), last_step=stop.step if stop is not None else None,
        )  # fmt: skip
    others = [text for text, ending in zip(earlier, ended, strict=True) if ending is not chosen]
    answer = _diagnosis(tables, names, chosen, logs, others)
    cost, memory = _cost(tables, chosen), _memory(tables, chosen)
    stop, attempt = last_stop(tables), attempts(tables).get(chosen.run)
    if final:
        is_done = stop is not None and stop.step == stop.planned == chosen.last_step
        title = f"All {stop.step:,} steps were done; after them it ended by" if stop and is_done else "Ended by"
        return replace(answer, verdict=f"{title} {answer.verdict}", cost=cost, memory=memory)
    on = f" to {stop.place}" if stop is not None else ""
    which = f"attempt {attempt.number} of {attempt.of}" if attempt is not None else "an attempt"
    verdict = f"The job recovered and went on{on}; {which} ended by {answer.verdict}"
    return replace(answer, verdict=verdict, cost=cost, memory=memory)


def _earlier(ending: Ending, logs: Mapping[str, str]) -> str:
    """Return what ended an attempt that another one follows."""
    where = f" of {base_name(logs[ending.run])}" if len(set(logs.values())) > 1 else ""
    if ending.of < _SEVERAL:
        return f"{ending.sentence}{where}; a new attempt follows"
    verb = "failed first:" if ending.number == 1 else "ended by"
    return f"attempt {ending.number} of {ending.of}{where} {verb} {ending.sentence}"


def _cost(tables: Tables, ending: Ending) -> str:
    """Return what the end of an attempt cost, in words; "" if the log does not show it."""
    job = next((job for job in job_timelines(tables) if ending.run in job.runs), None)
    parts = []
    if job is not None:
        losses = losses_of(tables, job) if job.is_stamped else []
        number = job.runs.index(ending.run) + 1
        stalled = [each for _, attempt, each in job.intervals if attempt == number and each.kind == STALL]
        stalled = [each for each in stalled if ending.last_step is None or each.last_line >= ending.line]
        if seconds := sum(each.end - each.begin for each in stalled) / 1e9:
            parts.append(f"{seconds:,.0f} s in which no step was done")
        for loss in losses:
            if loss.run == ending.run:
                again = f"{count(loss.steps, 'step')} done again, " if loss.steps else ""
                parts.append(f"{again}{loss.seconds:,.0f} s from the end of the attempt to the first new step")
    if not ending.goes_on and ending.last_step is not None:
        saved = last_saved(tables, ending.run, ending.line)
        if saved is not None and 0 < saved < ending.last_step:
            steps = count(ending.last_step - saved, "step")
            parts.append(f"{steps} since the checkpoint of step {saved:,}")
    return "; ".join(parts)


def _memory(tables: Tables, ending: Ending) -> Sequence[str]:
    """Return who held the memory of a device that was full, by a snapshot of its allocator; empty without one."""
    if ending.judged.kind != "gpu_out_of_memory":
        return ()
    rows = allocator.table(tables, Options())
    ranks = [culprit.rank for culprit in ending.culprits if culprit.rank is not None]
    if ranks:  # a snapshot of another rank does not show the device that was full
        rows = rows[rows["rank"].isna() | rows["rank"].isin(ranks)]
    accused, failed = rows["rank"].isin(ranks), rows["asked"].notna()
    runs = [*rows["run"][accused], *rows["run"][failed], *rows["run"]]
    return tuple(held_by_allocator(tables, runs[0], Options(), ranks)) if runs else ()


def _diagnosis(
    tables: Tables, names: Sequence[str], ending: Ending, logs: Mapping[str, str], earlier: Sequence[str]
) -> Diagnosis:
    judged = ending.judged
    first = judged.first or list(ending.rows)
    several = len(set(logs.values())) > 1
    by_process: dict[object, list[str]] = {}
    for row in sorted(first, key=lambda row: row.rank not in judged.ranks):
        by_process.setdefault(process_of(row), []).append(_evidence(tables, row, logs, several))
    evidence = _of_each([*by_process.values()] if len(ending.culprits) > 1 else [[*chain(*by_process.values())]])
    first_ids = {id(row) for row in first}
    others = [row for row in ending.rows if id(row) not in first_ids]
    others = [row for row in others if row.kind != judged.kind or row.rank not in (None, *judged.ranks)]  # the same
    reason = None
    if not ending.culprits:
        kind = judged.kind or first[0].kind
        reason = _who_reports(judged.first) if judged.first else judged.why or _NOT_SHOWN
        if kind in ("time_limit", "preemption", "terminated"):
            reason = f"it came from outside: {judged.why}"
    return Diagnosis(
        names,
        ending.sentence_in(base_name(logs[ending.run]) if several else ""),
        judged.kind or first[0].kind,
        ending.culprits,
        reason,
        judged.certainty,
        judged.why,
        evidence,
        _followed(others if not ending.is_wait else list(ending.rows)),
        _settles(judged.kind, first) if judged.certainty != SURE or judged.kind == "gpu_fault" else "",
        ending.last_step,
        earlier,
    )


def _settles(kind: str | None, first: Sequence[FailureRow]) -> str:
    """Return what would settle a failure of a kind, given the rows that report it."""
    if kind in ("collective_timeout", "nccl_error") and any(is_of_hccl(row.message) for row in first):
        return "the logs of CANN on all nodes (`~/ascend/log`): which rank did not take part"
    return _SETTLES.get(kind or "", "")


def _who_reports(first: Sequence[FailureRow]) -> str:
    """Return who reports the first failure and the peer that it names: neither need be at fault."""
    ranks = sorted({row.rank for row in first if row.rank is not None})
    names = [numbered("rank", ranks)] * bool(ranks)
    names += [first_few(sorted({row.node for row in first if row.node is not None}), 4)]
    who, peers = " and ".join(filter(None, names)), sorted({row.peer for row in first if row.peer is not None})
    if not who and not peers:
        return "the messages name no rank, node or device"
    by = f"reported by {who}, which need not be at fault" if who else "the reporter is not named"
    return by + (f"; the peer is {first_few(peers, 4)}" if peers else "")


def _of_each(evidence: Sequence[Sequence[str]]) -> list[str]:
    """Return a few lines of evidence: of the only culprit, or of each of several."""
    most = EVIDENCE if len(evidence) == 1 else _OF_EACH
    shown = evidence if len(evidence) <= _SHOWN else evidence[:_OF_MANY]
    return [text for texts in shown for text in texts[:most]]


def _followed(rows: Sequence[FailureRow]) -> str:
    """Return what followed from the first failure, in words."""
    by_title: dict[str, set[int]] = {}
    for row in rows:
        ranks = by_title.setdefault(title_of(row.kind, row.message), set())
        if row.rank is not None:
            ranks.add(row.rank)
    parts = []
    for title, ranks in by_title.items():
        parts.append(f"{title} ({numbered('rank', ranks)})" if ranks else title)
    return "; ".join(parts)


def _evidence(tables: Tables, row: FailureRow, logs: Mapping[str, str], several: bool) -> str:
    where = f"{base_name(logs.get(row.run, ''))}:{row.line}" if several else f"line {row.line:,}"
    where = place_of(tables, row.run, row.line) or where
    times = f" (printed {row.count:,} times)" if row.count > 1 else ""
    return f"{where}: {text_of(row)}{times}"


def _stuck(tables: Tables, names: Sequence[str], timeouts: Sequence[FailureRow]) -> Diagnosis | None:
    """Return who holds a job up by what its ranks dumped of their collectives, with the time-outs that they print."""
    dumps = jobs_of_dumps(tables)
    if not dumps:
        return None
    rows = stuck_ranks.table(tables, Options())
    holding = rows[rows["holds_up"].astype("boolean").fillna(False)]
    told = [f"line {row.line}: {text_of(row)}" for row in timeouts[:1]]
    if not len(holding):
        waiting = [job for job in dumps.values() if job.waiting]
        ranks_of_jobs = {rank for job in waiting for ranks in job.members.values() for rank in ranks}
        return _without_dump(rows, len(ranks_of_jobs), names, timeouts, told)
    culprits = []
    for rank, rank_rows in holding.groupby("rank", sort=True):
        texts = [_stuck_text(row) for row in row_dicts(rank_rows.head(EVIDENCE))]
        culprits.append(Culprit(int(rank), None, None, None, None, STUCK, SURE, tuple(texts)))
    ranks = [each.rank for each in culprits if each.rank is not None]
    verb = "hold" if len(ranks) > 1 else "holds"
    verdict = f"Held up: {numbered('rank', ranks)} {verb} up the others"
    evidence = _of_each([[f"rank {each.rank} {text}" for text in each.evidence] for each in culprits]) + told
    has, calls, waits = (
        ("these have", "they call", "they wait") if len(ranks) > 1 else ("this one has", "it calls", "it waits")
    )
    by_rank = [set(stuck) for _, stuck in holding.groupby("rank")["stuck"]]
    whys = []
    if any("device" in stuck for stuck in by_rank):
        whys.append(f"the other ranks have completed collectives that {has} only enqueued")
    if any("mismatch" in stuck for stuck in by_rank):
        whys.append(f"{calls} something else than the others under the same number")
    if any(stuck == {"host"} for stuck in by_rank):
        whys.append(f"the other ranks wait for collectives that {has} not enqueued, and {waits} for none")
    return Diagnosis(names, verdict, STUCK, culprits, None, SURE, "; or ".join(whys), evidence)


def _stuck_text(row: Mapping[str, Any]) -> str:
    """Return what a rank lacks, or what it calls instead of the calls of the others."""
    where = none_if_null(row["purpose"]) or row["group"]
    if row["stuck"] == "device":
        return f"has not completed {count(int(row['behind']), 'call')} of {where} that others have"
    if row["stuck"] == "mismatch":
        return f"calls {row['lacks']}, in {where}"
    return f"lacks {count(int(row['behind']), 'call')} of {where}; waiting: {row['waiting']}"


def _without_dump(
    rows: pd.DataFrame, world: int, names: Sequence[str], timeouts: Sequence[FailureRow], told: Sequence[str]
) -> Diagnosis | None:
    """Return that ranks left no dump, while the others wait; or that calls do not match, without a culprit.

    `world`: number of ranks of the jobs in which ranks wait.
    """
    mismatches = rows[rows["stuck"] == "mismatch"]
    if len(mismatches):
        texts = [f"rank {row['rank']} {_stuck_text(row)}" for row in row_dicts(mismatches.head(EVIDENCE))]
        reason = "as many ranks call one as the other"
        verdict = f"Held up: collectives do not match: {texts[0]}"
        return Diagnosis(names, verdict, STUCK, [], reason, NOT_KNOWN, reason, [*texts, *told])
    missing = sorted(int(rank) for rank in rows["rank"][rows["holds_up"].isna()])
    printed = {row.rank for row in timeouts if row.rank is not None}
    missing = [rank for rank in missing if rank not in printed]
    if not missing or 3 * len(missing) > world:
        return None
    why = "it left no dump, and the others wait" + ("; it printed no time-out either" if printed else "")
    culprits = [Culprit(rank, None, None, None, None, STUCK, LIKELY, ("left no dump",)) for rank in missing]
    verdict = f"Held up: {numbered('rank', missing)} left no dump, and the others wait"
    evidence = [*(f"rank {rank} left no dump" for rank in missing[:_SHOWN]), *told]
    return Diagnosis(names, verdict, STUCK, culprits, None, LIKELY, why, evidence)


_SLOW = {
    "slow_rank": ("slows the job", "slow the job", "the work itself takes longer than on the other ranks"),
    "throttling": ("slows the job: {its} is throttled", "slow the job: {their} are throttled", "heat or clocks"),
    "slow_node": ("is slow to all others", "are slow to all others", "most of its pairs are slow"),
    "slow_link": ("is slow", "are slow", "both its nodes are fast with others"),
    "hot_expert": ("has far more work than the mean", "have far more work than the mean", "by the loads of most steps"),
    "slow_stage": ("takes longer than the others", "take longer than the others", "by the times of its work"),
    "slow_replica": ("takes longer than the others", "take longer than the others", "by the times of its work"),
}
"""By kind of the members that slow a job: the words for one, for several, and the reason."""


def _held_up(names: Sequence[str], culprits: Sequence[Culprit]) -> Diagnosis:
    """Return that some members slow the job."""
    kind = culprits[0].kind
    alike = [culprit for culprit in culprits if culprit.kind == kind]
    one, several, why = _SLOW[kind]
    slow = first_few(names_of(alike), 4)
    its, their = ("it", "they") if all(each.gpu is not None for each in alike) else ("its GPU", "their GPUs")
    what = (one if len(alike) == 1 else several).format(its=its, their=their)
    verdict = f"No failure is reported; {slow} {what}"
    evidence = _of_each([[f"{each.name}: {text}" for text in each.evidence] for each in culprits])
    return Diagnosis(names, verdict, kind, culprits, None, culprits[0].certainty, why, evidence)


def _of_numbers(names: Sequence[str], lost: Divergence, rises: Sequence[Rise]) -> Diagnosis:
    """Return that a loss is NaN or infinite, and what rose before."""
    verdict = f"{lost.name} is {lost.value:g} since {_place(lost.step, lost.line)}"
    text = f"line {lost.line:,}: {lost.name} {lost.value:g}"
    rises = sorted(rises, key=lambda rise: rise.line)
    for first in rises[:1]:
        verdict += f"; {first.name} rises from {_place(first.step, first.line)} on"
    rose = [
        f"line {rise.line:,}: {rise.name} rises to {rise.value:.4g}, usual before {rise.usual:.3g}" for rise in rises
    ]
    own = lost.ranks if len(lost.ranks) == 1 else ()
    culprits = [Culprit(rank, None, None, None, None, "not_a_number", LIKELY, (text,)) for rank in own]
    alike = "several ranks print it" if lost.ranks else "all ranks print it, or the log does not show which rank does"
    reason = None if culprits else alike
    return Diagnosis(
        names, verdict, "not_a_number", culprits, reason, LIKELY if culprits else NOT_KNOWN, "", [*rose, text], "",
        "", lost.last_finite_step,
    )  # fmt: skip


def _place(step: int | None, line: int) -> str:
    return f"step {step}" if step is not None else f"line {line:,}"
