"""Sessions: which runs were measured together. Runs of one session share what differs from day to day and host to host.

A session is what the tag `session` names, else one job of a CI system or of Slurm, else one day on one machine.
"""

from __future__ import annotations

from perflog.analysis.compare.sides import Side
from perflog.metrics.run_moments import moments
from perflog.settings.run_settings import Settings, names_machine

TAG = "session"
"""Name of the tag that names the session of runs."""

_JOBS = (("ci_url", "ci_job"), ("slurm_job",))
"""Names of provenance that together name a job, if the first of them is known."""


def sessions_of(side: Side) -> dict[str, str]:
    """Return the session of each run of a side, without runs of unknown session."""
    started = moments(side.tables)
    found = {}
    for run, settings in side.settings.items():
        job = _job(settings)
        if job is None and run in started:
            machine = " ".join(value for name, value in sorted(settings.items()) if names_machine(name))
            job = f"{started[run].at:%Y-%m-%d} {machine}"
        if job is not None:
            found[run] = job
    return found


def _job(settings: Settings) -> str | None:
    if TAG in settings:
        return settings[TAG]
    names = next((names for names in _JOBS if names[0] in settings), ())
    return " ".join(settings.get(name, "") for name in names) or None
