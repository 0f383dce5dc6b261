"""Makes folders of logs, each log one run: repeats of one configuration, as a comparison takes them.

    python bench/make_campaign.py speedruns OUT LOGS [--seed N] [--faster SHARE]  # 1,390 steps each, 210 kB
    python bench/make_campaign.py layers OUT LOGS [--seed N] [--faster SHARE]     # 30 steps of an MoE layer, 70 kB
    python bench/make_campaign.py experts OUT LOGS [--seed N]                     # tokens for 32 experts, 18 kB

A speed run prints its own source before its first step, and the time since the start in whole milliseconds. A log of an
MoE layer has rows in most tables. Runs of a folder differ by a few thousandths, steps of a run by a few percent. A file
of expert loads has the tokens that one of 16 ranks sends to each expert, in 24 layers and 4 micro-batches of a step.
"""

import argparse
from pathlib import Path

import numpy as np
from make_log import Writer

HERE = Path(__file__).parent

STEPS = 1390
LAYER_STEPS = 30
SOURCE_LINES = 3200
STAGES = (27.0, 36.0, 82.0)  # ms: the sequences grow twice
RUN_SCATTER = 0.002


def program():
    """Lines of a program, as a speed run prints its own."""
    lines = [line for path in sorted(HERE.parent.glob("perflog/*.py")) for line in path.read_text().splitlines()]
    return (lines * (SOURCE_LINES // len(lines) + 1))[:SOURCE_LINES]


def speedrun(rng, scale):
    """The lines of a speed run."""
    of_run = scale * (1 + RUN_SCATTER * rng.standard_normal())
    stages = np.repeat(STAGES, -(-STEPS // len(STAGES)))[:STEPS]
    times = stages * of_run * (1 + 0.03 * np.abs(rng.standard_normal(STEPS)))
    times[0] *= 3
    clock = np.rint(np.cumsum(times)).astype(int)
    rule = "=" * 100
    lines = [*program(), rule, "Running Python 3.12.3 (main, Jan 22 2026, 20:57:42) [GCC 13.3.0]"]
    lines += ["Running PyTorch 2.10.0+cu128 compiled for CUDA 12.8", "Running Triton version 3.6.0", rule]
    lines += ["Compiling model and warming up kernels (~7 minutes on first execution)", "Resetting Model"]
    lines += ["step:0/1390 val_loss:10.8296 train_time:0ms step_avg:0.04ms"]
    for step, at in enumerate(clock, 1):
        lines.append(f"step:{step}/{STEPS} train_time:{at}ms step_avg:{at / step:.2f}ms")
        if step % 250 == 0 or step == STEPS:
            loss = 3.278 + 0.002 * rng.standard_normal() + 7 * (1 - step / STEPS) ** 4
            lines.append(f"step:{step}/{STEPS} val_loss:{loss:.4f} train_time:{at}ms step_avg:{at / step:.2f}ms")
    allocated = 30000 + int(rng.integers(0, 1000))
    return [*lines, f"peak memory allocated: {allocated} MiB reserved: {allocated + 15000} MiB"]


class LayerWriter(Writer):
    """Renders logs of an MoE layer whose runs are faster or slower as a whole."""

    scale = 1.0

    def around(self, middle, spread=0.03):
        return super().around(middle * self.scale, spread)


def layer_log(rng, scale):
    """The lines of a log of an MoE layer."""
    writer = LayerWriter(rng.integers(1 << 30))
    writer.scale = scale * (1 + RUN_SCATTER * rng.standard_normal())
    return writer.run(8, LAYER_STEPS)


def experts(rng, _):
    """The lines of a file of expert loads: few experts get most tokens."""
    lines = []
    for layer in range(24):
        share = rng.dirichlet(np.full(32, 0.3))
        loads = [[float(tokens) for tokens in rng.multinomial(4096, share)] for _ in range(4)]
        lines.append(f"{layer}:{loads}")
    return lines


KINDS = {"speedruns": speedrun, "layers": layer_log, "experts": experts}
RANKS = 16


def file_name(kind, number):
    """The name of a log of a folder."""
    if kind == "experts":
        return f"table_iter{number // RANKS + 1}_rank{number % RANKS}.log"
    return f"run-{number:04d}.txt"


def campaign(kind, out, logs, seed=0, faster=0.0):
    """Write a folder of logs of a kind; the same arguments write the same bytes."""
    rng = np.random.default_rng(seed)
    out.mkdir(parents=True, exist_ok=True)
    for number in range(logs):
        lines = KINDS[kind](rng, 1 - faster)
        (out / file_name(kind, number)).write_text("".join(f"{line}\n" for line in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("out", type=Path)
    parser.add_argument("logs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faster", type=float, default=0.0)
    args = parser.parse_args()
    campaign(args.kind, args.out, args.logs, args.seed, args.faster)


if __name__ == "__main__":
    main()
