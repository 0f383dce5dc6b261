"""Makes benchmark logs: the MoE layer log, rendered from the templates of its format with made-up numbers.

    python bench/make_log.py one OUT               # four runs of 100 steps, 0.93 MB
    python bench/make_log.py repeated OUT MB       # the same, repeated literally: thousands of runs
    python bench/make_log.py single OUT MB         # one run of that size: the step numbers go on

`--log FILE` takes the lines of FILE instead. Printed numbers are on the grids the programs print them on (C floats,
microseconds, CUDA's 1.024 us), and ranks talk over one another about as often as they do in real logs.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from perflog.formats.registry import builtin, known

RANKS = 4
STEPS = 100
EXPERTS = (8, 16, 32, 64)
HIDDEN = {"model_dim": 1024, "hidden_size": 4096, "samples": 8192, "top_k": 2}


class Writer:
    """Renders the lines of one log."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        form = known()["moe_layer"]
        self.templates = {line.name: line.template for line in form.lines if line.read}
        common = tomllib.loads((builtin() / "common.toml").read_text(encoding="utf-8"))
        self.model = next(b["sample"] for b in common["block"] if b["name"] == "printout").strip("\n")

    def line(self, name, **values):
        return self.templates[name].render(values)

    # --- numbers as the programs print them -------------------------------------------------------------------

    def around(self, middle, spread=0.03):
        """A time near `middle`, now and then much longer."""
        noise = self.rng.standard_normal()
        return middle * (1 + spread * abs(noise) + (self.rng.random() < 0.002) * self.rng.random())

    def wall(self, middle, spread=0.03):
        """Milliseconds from whole microseconds."""
        return round(self.around(middle, spread) * 1000) / 1000

    def event(self, middle, spread=0.03):
        """Milliseconds of a CUDA event: a C float, on a grid of 1.024 us."""
        return float(np.float32(round(self.around(middle, spread) / 0.001024) * 0.001024))

    def clock(self, middle, spread=0.15):
        """Milliseconds of time.time(): a double counts seconds in 2**-22."""
        return round(self.around(middle, spread) / 1000 * 2**22) * 2.0**-22 * 1000

    # --- runs -------------------------------------------------------------------------------------------------

    def run(self, experts, steps):
        """One run, as a list of lines."""
        blocks = np.sort(self.rng.choice(np.arange(205, 320), RANKS, replace=False))
        remote = [int(b - 195 + self.rng.integers(0, 9)) for b in blocks]
        loads = [(int(blocks[r]), remote[r]) for r in self.rng.permutation(RANKS)]
        out = [self.line("device", rank=int(r)) for r in self.rng.permutation(RANKS)]
        out += [self.line("mpi_rank", rank=int(r), world_size=RANKS) for r in self.rng.permutation(RANKS)]
        model = re.sub("out_features=32", f"out_features={experts * RANKS}", self.model)
        out += re.sub("num_expert=14", f"num_expert={experts + 6}", model).splitlines()
        out.append(
            self.line(
                "bench",
                world_size=RANKS,
                dtype="float16",
                num_local_experts=experts,
                a2a_ffn_overlap_degree=1,
                device="cuda:0",
                **HIDDEN,
            )
        )
        times = []
        for step in range(steps):
            out += self.step(loads, first=step == 0)
            times.append(self.close(out, step, 20 + experts / 8))
        last = [
            sum(float(np.float32(t[k])) for t in times[-10:]) / 10 for k in range(3)
        ]  # as C floats, added in doubles
        out += ["", self.line("summary", step_time=last[0], forward=last[1], backward=last[2]), "", self.line("end")]
        return out

    def close(self, out, step, middle):
        """The step line. Returns its times as printed."""
        forward, backward = (round(self.event(middle * share * (2 if step == 0 else 1)), 6) for share in (0.47, 0.52))
        total = round(float(np.float32(forward + backward + self.event(0.15))), 6)
        flop = HIDDEN["samples"] * HIDDEN["model_dim"] * HIDDEN["hidden_size"] * 4 * 3 * HIDDEN["top_k"]
        out.append(
            self.line(
                "step", step=step, step_time=total, forward=forward, backward=backward, tflops=flop * 1e-9 / total
            )
        )
        return total, forward, backward

    def mixed(self, queues, gap):
        """The lines of all ranks in the order in which they come: each rank's in its own order, by made-up times."""
        stream = []
        for rank, queue in enumerate(queues):
            at = self.rng.random() * gap
            for wait, text in queue:
                at += wait * (0.6 + 0.8 * self.rng.random())
                stream.append((at, rank, text))
        return [text for _, _, text in sorted(stream)]

    def step(self, loads, first):
        """What the ranks print before the step line."""
        shares = [float(np.float32(remote) / np.float32(amount)) for amount, remote in loads]
        out = self.mixed([self.assignment(r, *loads[r], first) for r in range(RANKS)], 30)
        out += self.mixed(
            [
                [(1, self.line("gather", remote_share=shares[r], gather_gemm=self.event(1.85))), (0.05, self.prepare())]
                for r in range(RANKS)
            ],
            9,
        )
        out += self.mixed(
            [[(1, self.line("scatter", remote_share=shares[r], gemm_scatter=self.event(2.1)))] for r in range(RANKS)], 9
        )
        out += self.mixed([[(1, self.line("forward", moe_forward=self.wall(8.9)))] for _ in range(RANKS)], 9)
        out += self.mixed(
            [
                [
                    (1, self.line("gather", remote_share=shares[r], gather_gemm=self.event(1.9))),
                    (2, self.linear2()),
                    (2, self.line("scatter", remote_share=shares[r], gemm_scatter=self.event(2.0))),
                ]
                for r in range(RANKS)
            ],
            9,
        )
        return out + self.mixed([self.backward() for _ in range(RANKS)], 9)

    def assignment(self, rank, amount, remote, first):
        parts = [self.clock(m * (30 if first else 1)) for m in (0.6, 2.1, 0.15, 0.9)]
        process = parts[0] + parts[1] + parts[2] + parts[3]
        times = dict(zip(("gate", "exchange", "select", "dispatch"), parts, strict=True))
        return [
            (1, "start"),
            (8, self.line("block_info", amount=amount, remote=remote)),
            (8, self.line("process", rank=rank, process=process, **times)),
            (8, self.line("wait", rank=rank, wait=self.wall(1.4, 0.3))),
            (0.1, self.line("count", blocks=amount)),
        ]

    def prepare(self):
        return self.line("prepare_forward", prepare_forward=self.wall(1.1), gemm1_forward=self.wall(2.9, 0.1))

    def linear2(self):
        inner = self.wall(3.6, 0.1)
        return self.line(
            "linear2_backward", linear2_backward=round(inner + self.wall(0.015, 0.3), 3), gemm2_backward=inner
        )

    def backward(self):
        parts = [self.wall(m, 0.1) for m in (0.03, 2.4, 1.5, 0.43)]
        names = ("prepare_backward", "gemm1_backward", "weight_grad", "other_backward")
        text = self.line("prepare_backward", **dict(zip(names, parts, strict=True)))
        return [
            (1, text),
            (0.08, self.line("linear1_backward", linear1_backward=round(sum(parts) + self.wall(0.05), 3))),
        ]


def one(seed=1):
    """Four runs of 100 steps, as bytes."""
    writer = Writer(seed)
    lines = [text for experts in EXPERTS for text in writer.run(experts, STEPS)]
    return "".join(f"{text}\n" for text in lines).encode()


def repeated(log, size, out):
    """The log's bytes again and again, at least `size` of them."""
    copies = max(round(size / len(log)), 1)
    block = log * min(copies, max((16 << 20) // len(log), 1))
    with open(out, "wb") as file:
        file.writelines(block for _ in range(copies // (len(block) // len(log))))
        file.write(log * (copies % (len(block) // len(log))))


def single(log, size, out):
    """One run: the first of the log, its steps again and again with numbers that go on."""
    run = log[: log.index(b"\n end end end") + len(b"\n end end end\n")]
    head = run.index(b"\n", run.index(b"[Benchmark]")) + 1
    tail = run.index(b"\n", run.rindex(b"\nSTEP-") + 1) + 1
    pieces = re.split(rb"(?m)^STEP-\d+", run[head:tail])
    steps = len(pieces) - 1
    cycles = max(round((size - head - len(run) + tail) / (tail - head)), 1)
    pattern = b"".join(p.replace(b"%", b"%%") + b"STEP-%d" for p in pieces[:-1]) + pieces[-1].replace(b"%", b"%%")
    with open(out, "wb") as file:
        file.write(run[:head])
        file.writelines(pattern % tuple(range(k * steps, (k + 1) * steps)) for k in range(cycles))
        file.write(run[tail:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("one", "repeated", "single"))
    parser.add_argument("out")
    parser.add_argument("megabytes", nargs="?", type=float, default=0.0)
    parser.add_argument("--log", type=Path)
    args = parser.parse_args()
    log = args.log.read_bytes() if args.log else one()
    if args.kind == "one":
        Path(args.out).write_bytes(log)
    else:
        {"repeated": repeated, "single": single}[args.kind](log, args.megabytes * 1e6, args.out)


if __name__ == "__main__":
    main()
