"""What an overview shows of jobs with a log for each host: the hosts, how far they are apart, what is wrong on one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perflog.analysis.job_endings import Ending, endings, joined
from perflog.analysis.lint import Finding
from perflog.analysis.overview.doubts import ENDED
from perflog.analysis.overview.run_figures import RunFigure
from perflog.analysis.run_names import run_names
from perflog.log import Log
from perflog.metrics import Tables
from perflog.units import first_few

_APART = 0.01  # of the lowest: hosts that are nearer agree
_FIGURES, _NAMED = 3, 4
_ONE_VALUE = "loss"  # of a host that ended before the others it is another one


def hosts_apart(log: Log, figures: Sequence[RunFigure], other_hosts: Mapping[str, str]) -> Iterator[str]:
    """Yield which logs are of one job, and how far their figures are apart."""
    names = run_names(log.run_keys)
    leaders = list(dict.fromkeys(other_hosts.values()))
    sentences: list[tuple[str, bool]] = []
    for leader in leaders:
        runs = [key.id for key in log.run_keys if leader in (key.id, other_hosts.get(key.id))]
        texts = []
        for figure in figures:
            values = {run: figure.values[run] for run in runs if run in figure.values}
            if not values or figure.name == _ONE_VALUE:
                continue
            low, high = (find(values, key=values.__getitem__) for find in (min, max))
            if values[high] - values[low] > _APART * abs(values[low]):
                low_text, high_text = (figure.text(values[run], 4) for run in (low, high))
                texts.append(f"{figure.name} {low_text} ({names[low]}) to {high_text} ({names[high]})")
        logs = f"{len(runs)} logs of one job (equal losses or times): {first_few(map(names.get, runs), _NAMED)}"
        over_all = f"; over all of them {', '.join(texts[:_FIGURES])}" * bool(texts)
        sentences.append((f"{logs}. The figures are from {names[leader]}{over_all}.", bool(texts)))
    alike = [sentence for sentence, is_apart in sentences if not is_apart]
    yield from (sentence for sentence, is_apart in sentences if is_apart or len(alike) == 1)
    if len(alike) > 1:
        yield f"{len(alike)} jobs have several logs each. The first of them: {alike[0]}"


def findings_of_hosts(
    log: Log, tables: Tables, found: Sequence[Finding], other_hosts: Mapping[str, str]
) -> list[Finding]:
    """Return what the linter finds, once for each job: a finding of another host alone has the name of its log."""
    names = run_names(log.run_keys)
    ends = dict(_ends(tables, names, other_hosts))
    shown = list(ends.values())
    shown += [each for each in found if each.run not in other_hosts and not (each.code == ENDED and each.run in ends)]
    known = {(each.code, each.run) for each in shown} | {(ENDED, leader) for leader in ends}
    for each in found:
        leader = other_hosts.get(each.run)
        if leader is not None and (each.code, leader) not in known:
            known.add((each.code, leader))
            shown.append(replace(each, message=f"{names[each.run]}: {each.message}"))
    return shown


def _ends(tables: Tables, names: Mapping[str, str], other_hosts: Mapping[str, str]) -> Iterator[tuple[str, Finding]]:
    """Yield what ended each job, by its run, from the failures of all its hosts."""
    by_leader: dict[str, list[Ending]] = {}
    for ending in endings(tables):
        if ending.is_proven and not ending.goes_on:
            by_leader.setdefault(other_hosts.get(ending.run, ending.run), []).append(ending)
    for leader in dict.fromkeys(other_hosts.values()):
        if leader in by_leader:
            ending = joined(by_leader[leader])
            text = f"Ended by {ending.sentence_in(names[ending.run])}"
            yield leader, Finding(ending.run, text, {ending.run: [ending.line]}, {}, "warning", ENDED)
