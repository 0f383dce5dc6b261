"""Which failures, culprits and level shifts does perflog report for steady logs? Over all files of some folders.

python bench/alarms.py FOLDER ... [--largest MB] [--part I/N]: a line for each alarm, to be judged by hand, and the
number of runs that have steps.
"""

from real_logs import ask

import perflog
from perflog.metrics.jobs.step_levels import run_levels
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_series import step_series


def main():
    runs = 0

    def alarms(log, _):
        nonlocal runs
        runs += len(step_series(Tables(log)))
        diagnosis = perflog.diagnose(log).as_json()
        if diagnosis["kind"] is not None:
            yield f"failure: {diagnosis['verdict']}"
        for culprit in diagnosis["culprits"]:
            yield f"culprit: {culprit}"
        for run, found in run_levels(Tables(log)).items():
            steps = [found.series.steps.item(level.start) for level in found.levels]
            medians = [round(value, 6) for value in found.medians]
            yield f"levels of run {run}: {medians} {found.unit}, since steps {steps}"

    read, left, count = ask(__doc__, alarms)
    print(f"{read} logs, {left} other files, {runs} runs with steps, {count} alarms")


if __name__ == "__main__":
    main()
