"""Metric energy: printed and sampled power against numbers worked out by hand, and power that tells nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.metrics_logs import by_hand, rows

import perflog
from perflog.metrics import Options, Tables, energy, scaling
from perflog.metrics.power import energy as module
from perflog.metrics.power.energy import ALL, GPU, NODE, ONE, PARTS, _energy, _Power, scope_of

WORLD = "using world size: 16, data-parallel size: 16, tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"


def megatron(power: str, seconds: Sequence[float] = (60.0,) * 6, first: int = 1) -> str:
    return "".join(
        f" iteration {i:8d}/     100 | consumed samples: {i * 1024:8d} | elapsed time per iteration (ms): "
        f"{s * 1e3:.1f} |{power} global batch size:  1024 | lm loss: 3.411207E+00 |\n"
        for i, s in enumerate(seconds, first)
    )


def log_of(path: Path, text: str) -> perflog.Log:
    path.write_text(text)
    return perflog.read(str(path))


def test_power_of_each_gpu(tmp_path: Path) -> None:
    """16 GPUs at 350 W for 60 s: 336 kJ for 1,024 samples. At 3 a GPU hour a step costs 16 / 60 * 3 = 0.8."""
    log = log_of(tmp_path / "a.log", WORLD + megatron(" power per GPU (W/GPU): 350.0 |"))
    (row,) = rows(energy(log, gpu_hour=3))
    assert (row["source"], row["of"], row["gpus"], row["power_w"]) == ("power_per_gpu", "one GPU", 16, 350)
    assert row["energy_step_j"] == pytest.approx(336e3)
    assert row["energy_sample_j"] == pytest.approx(336e3 / 1024)
    assert row["cost_step"] == pytest.approx(0.8)
    assert row["cost_million_samples"] == pytest.approx(0.8 / 1024 * 1e6)
    assert (row["energy_token_j"], row["cost_million_tokens"]) == (None, None)
    assert [r["cost_step"] for r in rows(energy(log))] == [None]


def test_energy_of_each_step_where_no_power_is_printed(tmp_path: Path) -> None:
    """21 kJ and 21.06 kJ in turn, in 60 s: 350.5 W."""
    lines = megatron(" energy per GPU (J/iter/GPU): 21000.0 |").splitlines(keepends=True)
    text = WORLD + "".join(s.replace("21000", "21060") if i % 2 else s for i, s in enumerate(lines))
    (row,) = rows(energy(log_of(tmp_path / "a.log", text)))
    assert (row["source"], row["power_w"]) == ("energy_per_gpu", pytest.approx(350.5))


def test_warm_up_counts_neither_in_the_power_nor_in_the_rate(tmp_path: Path) -> None:
    slow = megatron(" power per GPU (W/GPU): 100.0 |", [90.0] * 2)
    text = WORLD + slow + megatron(" power per GPU (W/GPU): 350.0 |", [60.0] * 30, 3)
    (row,) = rows(energy(log_of(tmp_path / "a.log", text), warmup=2))
    assert (row["power_w"], row["energy_sample_j"]) == (350, pytest.approx(350 * 16 * 60 / 1024))


def summary(**more: object) -> str:
    return json.dumps({"world_size": 2, "images_per_sec_global": 800.0, "model": "resnet50", **more})


def test_power_of_ranks_is_that_of_a_gpu_each(tmp_path: Path) -> None:
    ranks = [
        {"rank": rank, "gpu": {"power_w": {"min": 60.0, "mean": watts, "max": 500.0}}}
        for rank, watts in ((0, 300.0), (1, 500.0))
    ]
    (row,) = rows(energy(log_of(tmp_path / "a.json", summary(per_rank=ranks))))
    assert (row["of"], row["measured"], row["power_w"]) == ("one GPU", 2, 400)
    assert row["energy_sample_j"] == 1.0  # 2 x 400 W at 800 images/s


@pytest.mark.parametrize(
    ("name", "of", "joules"),
    [("mean_total_power_w", "all GPUs", 0.5), ("mean_gpu_power_w", "one GPU", 1.0), ("mean_node_power_w", "node", None),
     ("mean_power_w", None, None)],
)  # fmt: skip
def test_whose_power_it_is(tmp_path: Path, name: str, of: str | None, joules: float | None) -> None:
    (row,) = rows(energy(log_of(tmp_path / "a.json", summary(**{name: 400.0}))))
    assert (row["of"], row["energy_sample_j"]) == (of, joules)


@pytest.mark.parametrize("name", ["gpu_power_limit_w", "gpu_power_w", "max_gpu_power_w", "mean_cpu_power_w"])
def test_power_that_is_not_that_of_the_work(tmp_path: Path, name: str) -> None:
    """A limit, the power of one moment, an extreme, and another part of the machine."""
    assert rows(energy(log_of(tmp_path / "a.json", summary(**{name: 400.0})))) == []


def test_a_price_alone_gives_the_cost(tmp_path: Path) -> None:
    """800 images/s on 2 GPUs: a million take 2 * 1250 s."""
    log = log_of(tmp_path / "a.json", summary())
    (row,) = rows(energy(log, gpu_hour=7.2))
    assert (row["cost_million_samples"], row["power_w"]) == (pytest.approx(5.0), None)
    assert perflog.overview(log, gpu_hour=7.2).reasons[-1] == "Cost, 7.2 for a GPU hour: 5 for a million samples."


HEADER = "timestamp, index, power.draw [W]\n"


def smi(path: Path, powers: Sequence[float]) -> str:
    samples = (
        f"2026/02/24 19:46:{17 + t}.000, {gpu}, {watts} W\n" for t in range(-1, 7) for gpu, watts in enumerate(powers)
    )
    path.write_text(HEADER + "".join(samples))
    return str(path)


def titan(path: Path) -> str:
    lines = (
        f"[titan] 2026-02-24 19:46:{17 + 2 * i},000 - root - INFO - step: {i:2d}  loss:  7.62585"
        "  memory: 66.91GiB(37.51%)  tps: 10,000  tflops: 314.71  mfu: 13.99%\n"
        for i in range(3)
    )
    path.write_text("".join(lines))
    return str(path)


@pytest.mark.parametrize(("powers", "joules"), [((500.0, 700.0), 0.06), ((600.0,), 0.06), ((600.0, 70.0), None)])
def test_sampled_power(tmp_path: Path, powers: Sequence[float], joules: float | None) -> None:
    """600 W at 10,000 tokens/s of a GPU. Of a node with an idle GPU nobody knows which ones are the job's."""
    log = perflog.read(titan(tmp_path / "t.log"), smi(tmp_path / "smi.csv", powers))
    found = [(row["source"], row["measured"], row["energy_token_j"]) for row in rows(energy(log)) if row["source"]]
    assert found == ([] if joules is None else [("samples", len(powers), pytest.approx(joules))])


def test_energy_and_cost_of_each_size(tmp_path: Path) -> None:
    for gpus, rate, watts in ((1, 500.0, 400.0), (2, 900.0, 396.0), (4, 1600.0, 380.0)):
        text = json.dumps({"world_size": gpus, "global_batch_size": 64 * gpus, "images_per_sec_global": rate,
                           "mean_gpu_power_w": watts, "model": "r50"})  # fmt: skip
        (tmp_path / f"{gpus}.json").write_text(text)
    log = perflog.read(str(tmp_path))
    table = rows(scaling(log, gpu_hour=3.6), of="measured")
    assert [(r["gpus"], r["energy_j"]) for r in table] == [(1, 0.8), (2, pytest.approx(0.88)), (4, pytest.approx(0.95))]
    assert [r["cost_million"] for r in table] == [
        pytest.approx(gpus / rate * 1e3) for gpus, rate in ((1, 500), (2, 900), (4, 1600))
    ]
    (sentence,) = (text for text in perflog.overview(log).reasons if text.startswith("Energy"))
    assert sentence.startswith("Energy: 0.8 J (") and " to 0.95 J (" in sentence and sentence.endswith(") a sample.")


def test_compare_says_what_a_sample_takes(tmp_path: Path) -> None:
    paths = []
    for name, watts in (("a", 350.0), ("b", 420.0)):
        log_of(path := tmp_path / f"{name}.log", WORLD + megatron(f" power per GPU (W/GPU): {watts} |"))
        paths.append(str(path))
    (row,) = (row for row in perflog.compare(*paths).row_records if row.metric == "energy of a sample")
    assert row.base_value == pytest.approx(350 * 16 * 60 / 1024)
    assert row.change == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("power", "gpus", "found"),
    [
        (_Power("s", ALL, 800.0, 4), None, {"power_w": 800.0, "energy_step_j": 1600.0}),
        (_Power("s", ALL, 800.0, 4), 4, {"power_gpu_w": 200.0, "energy_step_j": 1600.0, "energy_token_j": 4.0}),
        (_Power("s", ONE, 200.0, 1), 4, {"power_gpu_w": 200.0, "energy_step_j": 1600.0, "energy_token_j": 4.0}),
        (_Power("s", ONE, 200.0, 1), None, {"power_gpu_w": 200.0, "energy_token_j": 4.0}),
        (_Power("s", None, 200.0, 1), 1, {"power_gpu_w": 200.0, "energy_step_j": 400.0, "of": ONE}),
        (_Power("s", None, 200.0, 1), 4, {"power_w": 200.0, "of": None}),
    ],
)
def test_energy_of_one_gpu_or_of_all(power: _Power, gpus: int | None, found: dict[str, object]) -> None:
    """2 s a step, 50 tokens/s on each GPU."""
    energies = _energy(power, gpus, 2.0, {"token": ("tokens_per_s", 50.0)})
    assert energies.items() >= found.items()
    assert "energy_step_j" not in _energy(power, gpus, None, {})
    assert ("energy_step_j" in energies) == ("energy_step_j" in found)
    assert ("energy_token_j" in energies) == ("power_gpu_w" in energies)


# --- energy of the whole run ------------------------------------------------------------------------------------------


TRACKED = """\
[codecarbon INFO @ 12:00:05] Energy consumed for RAM : 0.000039 kWh. RAM Power : 5.867 W
[codecarbon INFO @ 12:00:05] Energy consumed for all GPUs : 0.000125 kWh. Total GPU Power : 45.5 W
[codecarbon INFO @ 12:00:05] Energy consumed for all CPUs : 0.000289 kWh. Total CPU Power : 42.5 W
[codecarbon INFO @ 12:00:05] 0.000500 kWh of electricity used since the beginning.
{'loss': 2.25, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.2}
[codecarbon INFO @ 12:00:20] Energy consumed for RAM : 0.000079 kWh. RAM Power : 5.867 W
[codecarbon INFO @ 12:00:20] Energy consumed for all GPUs : 0.001250 kWh. Total GPU Power : 245.5 W
[codecarbon INFO @ 12:00:20] Energy consumed for all CPUs : 0.000589 kWh. Total CPU Power : 42.5 W
[codecarbon INFO @ 12:00:20] 0.002000 kWh of electricity used since the beginning.
"""


def test_an_energy_that_is_counted_up_is_that_of_the_run(tmp_path: Path) -> None:
    (row,) = rows(energy(log_of(tmp_path / "run.log", TRACKED)))
    assert (row["run_source"], row["run_of"]) == ("energy_so_far_gpus", "all GPUs")
    assert (row["energy_run_j"], row["energy_machine_j"]) == (pytest.approx(4500), pytest.approx(7200))


def test_a_total_over_the_tokens_of_the_run(tmp_path: Path) -> None:
    text = (
        "Total energy:              5000.50 J (0.001389 kWh)\nTotal tokens:              10,001\nIdle energy: 12.5 J\n"
    )
    (row,) = rows(energy(log_of(tmp_path / "run.log", text)))
    assert (row["energy_run_j"], row["run_of"]) == (5000.5, None)
    assert (row["energy_token_j"], row["source"]) == (pytest.approx(0.5), "total_energy / total_tokens")


def test_an_epoch_of_carbontracker(tmp_path: Path) -> None:
    text = (
        "CarbonTracker: Actual consumption for 1 epoch(s):\n\tTime:\t0:00:10\n\tEnergy:\t0.500000 kWh\n"
        "\tCO2eq:\t10.000000 g\nCarbonTracker: Predicted consumption for 5 epoch(s):\n\tTime:\t0:00:50\n"
        "\tEnergy:\t2.500000 kWh\n\tCO2eq:\t50.000000 g\n"
    )
    (row,) = rows(energy(log_of(tmp_path / "run.log", text)))
    assert (row["energy_run_j"], row["run_source"]) == (1.8e6, "CarbonTracker_Actual_consumption_for_1")


@pytest.mark.parametrize(
    ("words", "of"),
    [
        ("gpu power", GPU), ("power per gpu", ONE), ("total gpu power", ALL), ("gpus energy", ALL),
        ("node power", NODE), ("cpu power", PARTS), ("gpu memory power", PARTS), ("ram energy", PARTS),
        ("energy", None),
    ],
)  # fmt: skip
def test_of_what_a_power_or_an_energy_is(words: str, of: str | None) -> None:
    assert scope_of(words.split()) == of


@pytest.mark.parametrize(
    ("gpus", "watts", "mean"),
    [(4, [300.0, 200.0, 100.0], 200.0), (2, [300.0, 200.0, 100.0], None), (None, [300.0, 290.0], 295.0),
     (None, [300.0, 100.0], None), (2, [300.0, 100.0], 200.0)],
)  # fmt: skip
def test_sampled_power_of_as_many_devices_as_the_run_has(
    gpus: int | None, watts: list[float], mean: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If their number is not known, of devices that all work. An energy over its time counts before the power."""
    samples = [{"run": "r", "part": "run", "power_w": watt, "energy_j": None, "span_s": 2.0} for watt in watts]
    samples[0] |= {"power_w": 9.0, "energy_j": 2.0 * watts[0]}
    rows = [*samples, samples[0] | {"part": "steps"}, samples[0] | {"power_w": None}]
    table = pd.DataFrame(rows).astype({"power_w": float, "energy_j": float})
    monkeypatch.setattr(module, "telemetry", SimpleNamespace(table=lambda *_: table))
    sizes = {} if gpus is None else {"r": SimpleNamespace(gpus=gpus)}
    monkeypatch.setattr(module, "sized_runs", lambda _: sizes)
    found = module._sampled(Tables(by_hand("counters", [{"name": "power", "value": 1.0}])), Options())
    assert [(power.watts, power.measured) for power in found.values()] == ([] if mean is None else [(mean, len(watts))])


def test_of_several_powers_the_mean_of_a_gpu_counts() -> None:
    values = [
        {"key": key, "unit": "W", "value": watts, "step": step}
        for step in range(3)
        for key, watts in (("power", 100.0), ("avg_power", 200.0), ("gpu_power", 300.0), ("cpu_power", 900.0))
    ]
    rows = Tables(by_hand("values", values)).rows("values")
    named = {"power", "avg_power"}
    found = (
        module._printed(rows, "W", frozenset(["power"])),
        module._printed(rows.where(rows.one_of("key", named)), "W", frozenset(["power"])),
    )
    assert [power and (power.source, power.watts) for power in found] == [("gpu_power", 300.0), ("avg_power", 200.0)]
    # A power that is printed once for no step is of no work, and hides none behind it.
    once = [{"key": "gpu_power", "unit": "W", "value": 50.0}, {"key": "peak_power", "unit": "W", "value": 900.0}]
    rows = Tables(by_hand("values", [*once, *values[:1]])).rows("values")
    power = module._printed(rows, "W", frozenset(["power"]))
    assert power is not None and (power.source, power.watts) == ("power", 100.0)


@pytest.mark.parametrize(
    ("of", "gpus", "watts"),
    [(ONE, None, 800.0), (ONE, 4, 800.0), (None, 1, 800.0), (None, 4, None), (None, None, None), (ALL, 4, 200.0),
     (ALL, None, None), (NODE, 4, None)],
)  # fmt: skip
def test_the_power_of_a_gpu(of: str | None, gpus: int | None, watts: float | None) -> None:
    assert _Power("s", of, 800.0, None).per_gpu(gpus) == watts


def test_the_cost_of_what_is_known() -> None:
    """A GPU costs 2 a second, a step takes 3 s on 4 GPUs, the run 100 s."""
    units = {"token": ("tokens_per_s", 50.0)}
    every = {"cost_million_tokens": 2 / 50 * 1e6, "cost_step": 2 * 4 * 3.0, "cost_run": 2 * 4 * 100.0}
    assert module._cost(2.0, 4, 3.0, 100.0, units) == every
    assert module._cost(2.0, None, 3.0, 100.0, units) == {"cost_million_tokens": every["cost_million_tokens"]}
    assert module._cost(2.0, 4, None, math.nan, {}) == {}


@pytest.mark.parametrize(
    ("totals", "columns"),
    [
        ({"energy": (None, 5.0)}, {"energy_run_j": 5.0, "run_source": "energy", "run_of": None}),
        (
            {"node": (NODE, 9.0), "gpus": (ALL, 5.0), "one": (ONE, 3.0)},
            {"energy_run_j": 5.0, "run_source": "gpus", "run_of": ALL, "energy_machine_j": 9.0},
        ),
        ({"node": (NODE, 9.0)}, {"energy_run_j": 9.0, "run_source": "node", "run_of": NODE}),
        (
            {"energy": (GPU, 5.0), "tokens": ("n_tokens", 10.0)},
            {"energy_run_j": 5.0, "run_source": "energy", "run_of": GPU, "energy_token_j": 0.5,
             "source": "energy / n_tokens", "of": GPU},
        ),
        ({"energy_per_token": (ONE, 0.25)}, {"energy_token_j": 0.25, "source": "energy_per_token", "of": ONE}),
        ({}, {}),
    ],
)  # fmt: skip
def test_the_energy_of_the_gpus_comes_before_that_of_the_machine(totals: Any, columns: dict[str, Any]) -> None:
    assert dict(module._run_columns(totals)) == columns


def totals(*values: tuple[str, float, str | None], **more: Any) -> Any:
    rows = [{"key": key, "value": value, "unit": unit} | more for key, value, unit in values]
    return module._totals(Tables(by_hand("values", rows))).get("r")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([("total_energy", 5.0, "J")], {"total_energy": (None, 5.0)}),
        ([("total_energy", 5.0, "J")] * 2, None),  # which of them is it?
        ([("energy_so_far", 5.0, "J"), ("energy_so_far", 9.0, "J")], {"energy_so_far": (None, 9.0)}),
        ([("energy_so_far", 9.0, "J"), ("energy_so_far", 5.0, "J")], None),
        ([("idle_energy", 5.0, "J"), ("peak_energy", 5.0, "J"), ("cpu_energy", 5.0, "J"), ("work", 5.0, "J")], None),
        ([("energy", 5.0, None)], None),
        ([("energy_per_token", 0.5, "J")], {"energy_per_token": (None, 0.5)}),
        ([("energy_per_step", 0.5, "J")], None),
        ([("energy", 5.0, "J"), ("total_tokens", 2.0, None)], {"energy": (None, 5.0), "tokens": ("total_tokens", 2.0)}),
        ([("energy", 5.0, "J"), ("total_tokens", 1.0, None)], {"energy": (None, 5.0)}),
        ([("energy", 5.0, "J"), ("bad_tokens", 9.0, None), ("total", 9.0, None)], {"energy": (None, 5.0)}),
        ([("tokens", 9.0, None)], None),
        ([("energy", math.inf, "J")], None),
    ],
)
def test_energies_of_a_whole_run(values: list[tuple[str, float, str | None]], found: dict[str, Any] | None) -> None:
    assert totals(*values) == found
    assert totals(*values, step=3) is None and totals(*values, rank=3) is None


@pytest.mark.parametrize(
    ("key", "ranks", "mean"),
    [
        ("gpu_power", [None, None], (ONE, 200.0, None)),
        ("gpu_power", [0, 1], (ONE, 200.0, 2)),
        ("power", [None, None], (None, 200.0, None)),
        ("power", [3, 3], (ONE, 200.0, 1)),
        ("total_power", [0, 0], (ALL, 200.0, None)),  # rank 0 prints that of all
        ("total_power", [0, 1], (ONE, 200.0, 2)),
        ("node_power", [None, None], (NODE, 200.0, None)),
        ("total_node_power", [None, None], (NODE, 200.0, None)),
    ],
)
def test_the_mean_of_a_power(key: str, ranks: list[int | None], mean: tuple[Any, ...]) -> None:
    values = [{"key": key, "value": watts, "rank": rank} for rank, watts in zip(ranks, (100.0, 300.0), strict=True)]
    rows = Tables(by_hand("values", values)).rows("values")
    power = module._mean(key, set(key.split("_")), rows)
    assert (power.of, power.watts, power.measured) == mean


def test_each_rank_has_the_weight_of_one_gpu() -> None:
    values = [{"key": "power", "value": watts, "rank": rank} for rank, watts in ((0, 100.0), (0, 200.0), (1, 350.0))]
    power = module._mean("power", {"power"}, Tables(by_hand("values", values)).rows("values"))
    assert (power.watts, power.measured) == ((150.0 + 350.0) / 2, 2)


@pytest.mark.parametrize(
    ("words", "rows", "is_power"),
    [
        ("power", [{"rank": 0}, {"rank": 1}], False),  # one momentary value for each GPU
        ("power", [{"rank": 0}, {"rank": 0}], True), ("avg power", [{"rank": 0}], True),
        ("power per gpu", [{"rank": 0}], True), ("power", [{"rank": 0, "step": 1}], True),
        ("power", [{"rank": 0, "step": 1}, {"rank": 1}], False),
    ],
)  # fmt: skip
def test_a_power_of_the_work(words: str, rows: list[dict[str, Any]], is_power: bool) -> None:
    assert module._is_power(set(words.split()), Tables(by_hand("values", rows)).rows("values")) is is_power


@pytest.mark.parametrize(
    ("values", "is_of_steps"),
    [([5.0, 6.0], True), ([5.0, 6.0, 7.0], False), ([5.0, 6.0, 5.5], True), ([5.0, 5.0, 5.0], False)],
)
def test_energies_that_only_grow_are_counted_up(values: list[float], is_of_steps: bool) -> None:
    rows = [{"value": value, "step": step} for step, value in enumerate(values)]
    assert module._is_of_steps(Tables(by_hand("values", rows)).rows("values")) is is_of_steps
    assert not module._is_of_steps(Tables(by_hand("values", [row | {"step": None} for row in rows])).rows("values"))


def test_values_of_the_steady_steps_count() -> None:
    """By their step, or by their line among the lines of these steps; without steps all of them."""
    places = [(1, 1), (2, 5), (3, None), (10, None), (11, None), (30, None), (31, None), (32, 7)]
    rows = Tables(by_hand("values", [{"line": line, "step": step} for line, step in places])).rows("values")
    series: Any = SimpleNamespace(steady=[1], warmup=SimpleNamespace(cut=1), steps=np.array([4, 5, 6]),
                                  lines=np.array([2, 10, 30]))  # fmt: skip
    assert module._at_work(rows, series)["line"].tolist() == [2, 10, 11, 30, 32]
    assert len(module._at_work(rows, None)) == len(module._at_work(rows, SimpleNamespace(steady=[]))) == 8  # type: ignore[arg-type]


RATES = ("tok/s", "samples/s")


@pytest.mark.parametrize(
    ("covers_all", "gpus", "rate"),
    [(True, 4, 25.0), (True, None, None), (False, 4, 100.0), (False, None, 100.0), (None, 1, 100.0), (None, 4, None)],
)
def test_the_rate_of_a_gpu(covers_all: bool | None, gpus: int | None, rate: float | None) -> None:
    of: Any = SimpleNamespace(name="tokens_per_s", covers_all=covers_all, values={"r": 100.0})
    assert module._rate_per_gpu(of, "r", gpus) == rate and module._rate_per_gpu(of, "other", gpus) is None
    second, sample = (
        SimpleNamespace(name=name, covers_all=False, values={"r": 5.0}) for name in ("tok/s", "samples/s")
    )
    units = dict(module._units([of, second, sample], "r", gpus))  # type: ignore[list-item]
    assert units == {"token": (of.name, rate) if rate else ("tok/s", 5.0), "sample": ("samples/s", 5.0)}
