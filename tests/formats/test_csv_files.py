"""CSV files with a header, and GPU telemetry: every cell is a figure or a text, under the name of its column."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.reading import Reading, read

import perflog
from perflog.errors import InputError

SECOND = 10**9
TEN = 1_696_932_000 * SECOND  # 2023-10-10 10:00:00


def text(*lines: str) -> bytes:
    return "\n".join([*lines, ""]).encode()


def cells(got: Reading, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table in the order of the log, some columns of each."""
    rows = sorted(got.rows(table), key=lambda row: int(row["line"]))
    return [tuple(row[name] for name in columns) for row in rows]


# --- training metrics -----------------------------------------------------------------------------------------------


def test_a_row_per_step() -> None:
    got = read(text("epoch,step,train_loss,val_loss,lr,time", "0,100,2.5,,0.0003,12.5", "1,200,2.25,2.375,1e-4,25.0"))
    assert got.done.formats == ["csv"]
    assert cells(got, "steps", "line", "epoch", "step", "loss", "learning_rate", "step_time_s") == [
        (2, 0, 100, 2.5, 0.0003, None), (3, 1, 200, 2.25, 1e-4, None),
    ]  # fmt: skip
    assert cells(got, "values", "line", "step", "key", "value", "unit") == [
        (2, 100, "time", 12.5, None), (3, 200, "val_loss", 2.375, None), (3, 200, "time", 25.0, None),
    ]  # fmt: skip
    assert got.done.lines["unread"] == 0


def test_a_step_with_a_unit_of_time_is_its_time() -> None:
    got = read(text("step,loss,step_ms", "1,2.5,500", "2,2.25,250"))
    assert cells(got, "steps", "step", "loss", "step_time_s") == [(1, 2.5, 0.5), (2, 2.25, 0.25)]


def test_lightning_writes_sparse_rows() -> None:
    """A row for the step, one for the validation, one for the mean of the epoch; each fills its own columns."""
    got = read(
        text(
            "epoch,lr-AdamW,step,train_loss_epoch,train_loss_step,val_acc,val_loss",
            "0,0.0003,49,,2.302,,",
            "0,,99,,,0.412,1.95",
            "0,,99,2.2,,,",
            "1,0.0003,149,,1.95,,",
        )
    )
    assert cells(got, "steps", "line", "epoch", "step", "loss", "learning_rate") == [
        (2, 0, 49, 2.302, 0.0003), (5, 1, 149, 1.95, 0.0003),
    ]  # fmt: skip
    assert cells(got, "values", "line", "step", "key", "value") == [
        (3, 99, "epoch", 0.0), (3, 99, "val_acc", 0.412), (3, 99, "val_loss", 1.95),
        (4, 99, "epoch", 0.0), (4, 99, "train_loss_epoch", 2.2),
    ]  # fmt: skip


def test_units_in_brackets_and_in_names() -> None:
    got = read(text("Step\tStep Time (ms)\tTokens/s\tMemory [MiB]\tloss", "10\t412.5\t19860\t1024\t2.5"))
    assert cells(got, "steps", "step", "step_time_s", "memory_bytes", "loss") == [(10, 412.5 * 1e-3, 2.0**30, 2.5)]
    assert cells(got, "steps", "tokens_per_s") == [(19860.0,)]
    rate = read(text("step,loss,throughput (tokens/s)", "10,2.5,19860"))
    assert cells(rate, "steps", "tokens_per_s") == [(19860.0,)]
    suffix = read(text("iteration;step_time_ms;elapsed_s;loss", "10;412.5;3.5;2.5"))
    assert cells(suffix, "steps", "step", "step_time_s") == [(10, 412.5 * 1e-3)]
    assert cells(suffix, "values", "key", "value", "unit") == [("elapsed", 3.5, "s")]


def test_rates_and_optimizer_steps() -> None:
    got = read(
        text(
            "micro_step,opt_step,tokens,loss_avg,grad_norm_last,grad_norm_max,lr,tok_per_s,vram_gb",
            "310050,38756,3809894400,3.4541,0.7039,0.7605,2.543e-04,15118,18.01",
            "310100,38762,3810508800,3.3892,0.6428,0.7846,2.543e-04,47152,18.01",
        )
    )
    assert cells(got, "steps", "step", "learning_rate", "tokens_per_s") == [
        (38756, 2.543e-4, 15118.0), (38762, 2.543e-4, 47152.0),
    ]  # fmt: skip
    assert [row[:2] for row in cells(got, "values", "key", "value", "line") if row[2] == 2] == [
        ("micro_step", 310050.0), ("tokens", 3809894400.0), ("loss_avg", 3.4541), ("grad_norm_last", 0.7039),
        ("grad_norm_max", 0.7605), ("vram", 18010000000.0),
    ]  # fmt: skip


def test_a_time_without_a_unit_is_no_step_time() -> None:
    got = read(text("step,step_time,loss", "1,0.5,2.5"))
    assert cells(got, "steps", "step", "step_time_s", "loss") == [(1, None, 2.5)]
    assert [row["value"] for row in got.rows("values")] == [0.5]


def test_two_names_of_one_field() -> None:
    got = read(text("global_step,step,loss,train_loss", "640,10,2.5,2.75"))
    assert cells(got, "steps", "step", "loss") == [(640, 2.5)]
    assert {row["value"] for row in got.rows("values")} == {10.0, 2.75}


def test_a_header_again_and_odd_cells() -> None:
    header = '"step","loss","note"'
    got = read(text("# run of May", "", header, '1,2.5,"a, b"', "2,nan,", header, "1,2.25,N/A", "x,diverged,c"))
    nan = pytest.approx(float("nan"), nan_ok=True)
    assert cells(got, "steps", "line", "step", "loss") == [(4, 1, 2.5), (5, 2, nan), (7, 1, 2.25)]
    assert cells(got, "values", "line", "key", "text") == [
        (4, "note", "a, b"), (8, "step", "x"), (8, "loss_2", "diverged"), (8, "note", "c"),
    ]  # fmt: skip
    assert (got.done.lines["read"], got.done.lines["unread"]) == (6, 1)


# --- results of benchmarks ------------------------------------------------------------------------------------------


def test_a_row_per_configuration() -> None:
    got = read(
        text(
            ",batch_size,num_microbatches,prompt_len,new_tokens,time (s),throughput (tokens/s),peak memory GPU:0,model",
            '0,1,1,512,64,3.215,19.9,17179869184,"opt-6.7b, tp=2"',
            '1,4,2,512,64,4.01,63.75,,"opt-6.7b, tp=2"',
        )
    )
    assert cells(got, "values", "key", "value", "unit", "text")[:8] == [
        ("batch_size", 1.0, None, None), ("num_microbatches", 1.0, None, None), ("prompt_len", 512.0, None, None),
        ("new_tokens", 64.0, None, None), ("time", 3.215, "s", None), ("throughput", 19.9, "1/s", None),
        ("peak_memory_GPU_0", 17179869184.0, None, None), ("model", None, None, "opt-6.7b, tp=2"),
    ]  # fmt: skip
    assert len(got.rows("values")) == 15
    assert got.done.lines == {"total": 3, "read": 3, "context": 0, "unread": 0}


def test_a_row_per_epoch() -> None:
    got = read(text("epoch,      train/box_loss,  metrics/mAP50(B)", "1,  1.25,  0.5", "2,  1.125,  0.625"))
    assert cells(got, "values", "line", "key", "value") == [
        (2, "epoch", 1.0), (2, "train_box_loss", 1.25), (2, "metrics_mAP50_B", 0.5),
        (3, "epoch", 2.0), (3, "train_box_loss", 1.125), (3, "metrics_mAP50_B", 0.625),
    ]  # fmt: skip


NO_CSV = (
    ("Hello, loss of memory", "and so on, and so forth"),
    ("time,latency",),
    ("We saw a loss, then a step, then nothing.", "It was late, dark, and cold."),
    ("1.0,2.0,3.0", "4.0,5.0,6.0"),
    ("name,city", "ann,rome"),
    ("loss,loss", "1,2"),
)


def test_padded_cells_a_comma_at_the_end_and_infinity() -> None:
    """YOLO's results.csv pads names and cells, also in front of the first; `mAP_0.5:0.95` is a name."""
    got = read(text(
        "               epoch,      train/box_loss, metrics/mAP_0.5:0.95,        val/box_loss,        ",
        "                   0,             0.12431,           0.00014847,                 inf,        ",
        "                   1,             0.12074,            0.0003186,              0.1164,        ",
    ))  # fmt: skip
    assert cells(got, "values", "key", "value") == [
        ("epoch", 0), ("train_box_loss", 0.12431), ("metrics_mAP_0_5_0_95", 0.00014847), ("val_box_loss", math.inf),
        ("epoch", 1), ("train_box_loss", 0.12074), ("metrics_mAP_0_5_0_95", 0.0003186), ("val_box_loss", 0.1164),
    ]  # fmt: skip
    assert got.done.lines["unread"] == 0


@pytest.mark.parametrize("lines", NO_CSV)
def test_other_texts_are_no_csv(lines: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        read(text(*lines))


def test_a_header_without_a_row_like_it_is_none() -> None:
    lines = (
        "**Native build, RTX 4060, 8GB memory**",
        "",
        "| kind | time (ms) |",
        "|---|---|",
        "| a | 8.5 |",
        "| b | 9.5 |",
    )
    got = read(text(*lines))
    assert got.done.formats == ["tables"]
    assert cells(got, "values", "line", "key", "value")[-1] == (6, "time", 0.0095)


def test_another_format_comes_first() -> None:
    got = read(
        text('"Name","Calls","TotalDurationNs","AverageNs","Percentage"', '"hipMemcpy",3,1342822760,447607586,62.5')
    )
    assert got.done.formats == ["rocprof"]
    log = read(text("step,loss", "1,2.5", "iter 10: loss 2.5, time 120.5ms, mfu 3.25%"))
    assert log.done.formats == ["nanogpt"]


# --- GPU telemetry --------------------------------------------------------------------------------------------------

READING = ("line", "device", "name", "value", "unit", "start_ns")


def test_nvidia_smi() -> None:
    got = read(
        text(
            "timestamp, index, name, utilization.gpu [%], memory.used [MiB], temperature.gpu, power.draw [W], "
            "clocks.current.sm [MHz], pstate",
            "2023/10/10 10:00:00.125, 0, NVIDIA H100 80GB HBM3, 45 %, 16384 MiB, 55, 123.45 W, 1980 MHz, P0",
            "2023/10/10 10:00:01.250, 1, NVIDIA H100 80GB HBM3, 0 %, 4 MiB, 33, [N/A], 345 MHz, P8",
        )
    )
    first, second = TEN + SECOND // 8, TEN + SECOND * 5 // 4
    assert cells(got, "counters", *READING) == [
        (2, 0, "utilization_gpu", 0.45, "1", first), (2, 0, "memory_used", 2.0**34, "B", first),
        (2, 0, "temperature_gpu", 55.0, None, first), (2, 0, "power_draw", 123.45, "W", first),
        (2, 0, "clocks_current_sm", 1980e6, "Hz", first),
        (3, 1, "utilization_gpu", 0.0, "1", second), (3, 1, "memory_used", 2.0**22, "B", second),
        (3, 1, "temperature_gpu", 33.0, None, second), (3, 1, "clocks_current_sm", 345e6, "Hz", second),
    ]  # fmt: skip
    assert {row["device_name"] for row in got.rows("counters")} == {"NVIDIA H100 80GB HBM3"}
    assert cells(got, "values", "line", "key", "text") == [(2, "pstate", "P0"), (3, "pstate", "P8")]


def test_nvidia_smi_without_units_in_cells() -> None:
    got = read(text("index, power.draw [W]", "0, 72.5", "index, power.draw [W]", "0, 80.5"))
    assert cells(got, "counters", *READING) == [
        (2, 0, "power_draw", 72.5, "W", None), (4, 0, "power_draw", 80.5, "W", None),
    ]  # fmt: skip


DMON = (
    "# gpu     pwr  gtemp  mtemp     sm    mem   mclk ",
    "# Idx       W      C      C      %      %    MHz ",
    "    0     124     55      -     98     45   2619 ",
    "    1      72     33      -      0      0   2619 ",
)


def test_dmon_prints_its_header_again() -> None:
    got = read(text(*DMON, *DMON))
    assert got.done.formats == ["gpu_telemetry"]
    assert cells(got, "counters", *READING)[:5] == [
        (3, 0, "pwr", 124.0, "W", None), (3, 0, "gtemp", 55.0, "°C", None), (3, 0, "sm", 0.98, "1", None),
        (3, 0, "mem", 0.45, "1", None), (3, 0, "mclk", 2619e6, "Hz", None),
    ]  # fmt: skip
    assert len(got.rows("counters")) == 20
    assert got.done.lines == {"total": 8, "read": 6, "context": 2, "unread": 0}


def test_dmon_with_date_and_time() -> None:
    got = read(
        text(
            "#Date       Time        gpu     pwr     sm ",
            "#YYYYMMDD   HH:MM:SS    Idx       W      % ",
            " 20231010   10:00:00      3     124     98 ",
            " 20231010   10:00:01      3     130      - ",
        )
    )
    assert cells(got, "counters", *READING) == [
        (3, 3, "pwr", 124.0, "W", TEN), (3, 3, "sm", 0.98, "1", TEN), (4, 3, "pwr", 130.0, "W", TEN + SECOND),
    ]  # fmt: skip


def test_pmon_counts_processes_and_no_devices() -> None:
    got = read(
        text(
            "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command ",
            "# Idx           #    C/G      %      %      %      %      %      %    name ",
            "    0        485     C     37      4      -      -      -      -    python.exe ",
            "    0      11368   C+G      -      2      -      -      -      -    explorer.exe ",
            "    1          -     -      -      -      -      -      -      -    - ",
        )
    )
    assert got.done.formats == ["gpu_telemetry"]
    assert cells(got, "counters", "line", "device", "subject", "name", "value", "unit") == [
        (3, 0, "485", "process_sm", 0.37, "1"), (3, 0, "485", "process_mem", 0.04, "1"),
        (4, 0, "11368", "process_mem", 0.02, "1"),
    ]  # fmt: skip
    assert got.done.lines["unread"] == 0


def test_dcgmi() -> None:
    got = read(
        text(
            "#Entity   GRACT        TENSO        POWER        ", "ID                                              ",
            "GPU 0     0.987        0.412        312.5        ", "GPU 1     N/A          0.000        71.25        ",
        )
    )  # fmt: skip
    assert cells(got, "counters", *READING) == [
        (3, 0, "GRACT", 0.987, None, None), (3, 0, "TENSO", 0.412, None, None), (3, 0, "POWER", 312.5, "W", None),
        (4, 1, "TENSO", 0.0, None, None), (4, 1, "POWER", 71.25, "W", None),
    ]  # fmt: skip


def test_dcgm_exporter() -> None:
    part = 'GPU_I_PROFILE="1g.10gb",GPU_I_ID="%d",Hostname="a"'
    got = read(
        text(
            "# HELP DCGM_FI_DEV_DEC_UTIL Ratio of time the decoder is active (in %).",
            "# TYPE DCGM_FI_DEV_DEC_UTIL gauge",
            'DCGM_FI_DEV_DEC_UTIL{gpu="1",UUID="GPU-fc60",pci_bus_id="00000000:B1:00.0",device="nvidia1"} 46',
            'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-58e8",device="nvidia0",' + part % 7 + "} 0.250000",
            'DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-58e8",device="nvidia0",' + part % 8 + "} 0.500000",
        )
    )
    assert got.done.formats == ["gpu_telemetry"]
    assert cells(got, "counters", "line", "device", "subject", "name", "value", "unit") == [
        (3, 1, None, "DCGM_FI_DEV_DEC_UTIL", 46.0, None), (4, 0, "7", "DCGM_FI_PROF_SM_ACTIVE", 0.25, None),
        (5, 0, "8", "DCGM_FI_PROF_SM_ACTIVE", 0.5, None),
    ]  # fmt: skip


def test_the_mean_of_each_counter(tmp_path: Path) -> None:
    log = tmp_path / "dmon.txt"
    log.write_bytes(text(*DMON, *DMON[:2], "    0     324     57      -     88     45   2619 "))
    table = perflog.metrics.counters(perflog.read(str(log)))
    power = table[table["counter"] == "pwr"]
    assert power[["device", "mean", "max", "unit", "readings"]].values.tolist() == [
        [0, 224.0, 324.0, "W", 2], [1, 72.0, 72.0, "W", 1],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "nanoseconds"),
    [
        ("1764189075", 1764189075000000000),
        ("1764189075.25", 1764189075250000000),
        ("1764189075123", 1764189075123000000),
        ("1764189075123456789", 1764189075123456789),
        ("12.5", None),
    ],
)
def test_times_since_1970_are_those_of_readings(printed: str, nanoseconds: int | None) -> None:
    got = read(f"timestamp,memory.used,utilization.gpu\n{printed},442, 93\n{printed},4846, 46\n".encode())
    assert [row["start_ns"] for row in got.rows("counters")] == [nanoseconds] * 4
    stored, unread = (sum(row[f"figures_{x}"] for row in got.rows("lines")) for x in ("stored", "unread"))
    assert (stored, unread) == ((4, 2) if nanoseconds is None else (6, 0))


# --- energy and power in names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "key", "value", "unit"),
    [
        ("Energy (kWh)", "Energy", 7.2e6, "J"), ("gpu_energy_wh", "gpu_energy", 7200, "J"),
        ("energy_j", "energy", 2, "J"), ("total_energy_joules", "total_energy", 2, "J"),
        ("avg_power_w", "avg_power", 2, "W"), ("avg_watts", "avg_watts", 2, "W"),
        ("energy_per_token_mj", "energy_per_token", 0.002, "J"), ("J/token", "energy_per_token", 2, "J"),
        ("joules_per_token", "energy_per_token", 2, "J"), ("Energía (J/token)", "Energia_per_token", 2, "J"),
        ("wh_per_1000_output_tokens", "energy_per_1000_output_tokens", 7200, "J"),
        ("tok/J", "tok_per_J", 2, None), ("tokens_per_kWh", "tokens_per_kWh", 2, None),
        ("tokens_per_s_per_w", "tokens_per_s_per_w", 2, None), ("size_h", "size_h", 2, None),
    ],
)  # fmt: skip
def test_a_name_may_say_joules_and_watts(printed: str, key: str, value: float, unit: str | None) -> None:
    got = read(text(f"model,batch,time_ms,{printed}", "a,1,1.5,2", "b,1,2.5,2"))
    [*_, row] = cells(got, "values", "key", "value", "unit")
    assert row == (key, pytest.approx(value), unit)


def test_comments_above_the_header_are_settings() -> None:
    got = read(b"# run=abl-3 lr=0.003\n# warmup=10, dtype=bf16\n# gpu: H100\nstep,loss\n1,2.5\n2,2.25\n# no pairs\n")
    (run,) = got.rows("runs")
    assert json.loads(run["config"]) == {"run_2": "abl-3", "lr": 0.003, "warmup": 10, "dtype": "bf16", "gpu": "H100"}
    assert [row["loss"] for row in got.rows("steps")] == [2.5, 2.25]
