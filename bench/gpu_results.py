"""Reads what bench/gpu.py brought back: is each log exact, can its figures be trusted, where does the time go?

    python bench/gpu_results.py OUT

For each log: lines and figures unread, findings, the layer beside plain products, its waterfall. For the repeats: their
scatter, and how often the gate fires on them. For the trace of the phase clock: each phase by the clock's events beside
the time that the trace has for its range, and the calls that wait for the device inside a step.
"""

import argparse
import json
import sys
import tarfile
import tempfile
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev

import perflog
from perflog.metrics import matmul_efficiency, steps, wait, waterfall
from perflog.metrics.traces.operators.device_ranges import device_ranges


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    figures = json.loads((out / "figures.json").read_text("utf-8"))
    card = (figures["parts"].get("machine", {}).get("figures") or {}).get("card", figures["device"])
    print(f"on {card}; failed:\n{(out / 'failed.txt').read_text('utf-8')}")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(out / "logs.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        logs = {path.stem: path for path in sorted(Path(folder).glob("*.log"))}
        for name, path in logs.items():
            if not (figures["parts"][name].get("figures") or not path.stat().st_size):
                print_log(name, path)
        print_repeats([path for name, path in logs.items() if name.startswith("repeat-")])
    print_products(figures["parts"].get("products", {}).get("figures") or {})
    if (out / "phases.json.gz").exists():
        print_phases(out / "phases.json.gz", figures["parts"]["phases"]["figures"] or {})
    return 0


def print_log(name, path):
    """One log: whether it was read whole, what not to trust, and where the time goes."""
    log = perflog.read(path)
    lines, unread = log.line_account, log.figure_account.get("unread", 0)
    findings = perflog.lint(log)
    findings = findings[findings["severity"] != "note"]
    print(f"\n{name}: {lines['total']:,} lines, {lines['unread']} unread, {unread} figures unread, "
          f"{len(findings)} findings")  # fmt: skip
    for code, number in findings["code"].value_counts().items():
        print(f"  finding {code}: {number}")
    table = steps(log)
    steady = table[(table["of"] == "step_time") & (table["part"] == "steady")]
    bars = waterfall(log)
    rates, waits = matmul_efficiency(log), wait(log)
    hidden = waits[waits["rank"].isna() & waits["total_s"].notna()]  # transfers beside computation
    for run, label, median_s in steady[["run", "label", "median_s"]].itertuples(index=False):
        of_run = bars[(bars["run"] == run) & (bars["of"] == "step")].nlargest(4, "share")
        shares = ", ".join(
            f"{bar} {100 * share:.0f} %" for bar, share in of_run[["bar", "share"]].itertuples(index=False)
        )
        print(f"  {label or run}: {1e3 * median_s:.3f} ms a step; {shares}")
        for row in rates[(rates["run"] == run) & rates["rank"].isna() & rates["ratio"].notna()].to_dict("records"):
            print(f"    {row['what']}: {row['ratio']:.2f} of plain products")
        for row in hidden[hidden["run"] == run].to_dict("records"):
            print(f"    {row['exposes']}: {1e3 * row['total_s']:.3f} ms, {100 * row['hidden_share']:.0f} % hidden")


def print_repeats(paths):
    """Scatter between repeats, and the gate's verdicts on pairs of them, none of which should fire."""
    logs = [perflog.read(path) for path in paths if path.stat().st_size]
    if len(logs) < 2:
        return
    medians = []
    for log in logs:
        table = steps(log)
        medians.append(float(table[(table["of"] == "step_time") & (table["part"] == "steady")]["median_s"].iloc[0]))
    print(f"\nrepeats: {len(logs)}, {1e3 * mean(medians):.3f} ms ± {100 * stdev(medians) / mean(medians):.2f} %")
    pairs = list(combinations(logs, 2))
    fired = sum(row.verdict == "regression" for a, b in pairs for row in perflog.compare(a, b).headlines[:1])
    print(f"  regressions found between pairs of repeats: {fired} of {len(pairs)}")


def print_products(figures):
    rates = {name: value for name, value in figures.items() if name.endswith("_tflops")}
    for name, value in rates.items():
        print(f"products, {name.removesuffix('_tflops').replace('_', ' ', 1)}: {value:.2f} TFLOP/s")
    for name in figures:
        if name.endswith("_failed"):
            print(f"products, {name.removesuffix('_failed')}: {figures[name]}")


def print_phases(path, figures):
    """Each phase by the clock beside the trace, as means of a step; calls that wait inside the steps."""
    log = perflog.read(path)
    rows, count = device_ranges(log), len(figures.get("steps", [])) or 1
    column = "gpu_s" if rows["gpu_s"].notna().any() else "host_s"
    traced = rows.groupby("range")[column].sum() / count
    print(f"\nphases, clock beside trace ({column}):")
    for name in (key.removeprefix("phase_").removesuffix("_s") for key in figures if key.startswith("phase_")):
        clock = mean(value or 0.0 for value in figures[f"phase_{name}_s"])
        if name in traced.index and clock:
            print(f"  {name}: {1e3 * clock:.3f} ms, {1e3 * traced[name]:.3f} ms, {traced[name] / clock - 1:+.1%}")
    events = log.table("events")
    waits = events[(events["kind"] == "runtime") & events["name"].str.contains("Synchronize", na=False)]
    print(f"  calls that wait for the device, in {count} steps: {waits['name'].value_counts().to_dict() or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
