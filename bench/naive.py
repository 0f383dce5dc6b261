"""A plain Python reader of the MoE layer log, as people write it: `re.fullmatch` line by line, lists of columns.

    python bench/naive.py LOG OUT

It writes the same tables as perflog (OUT/phases.parquet and so on). It does not account for all lines and does not find
the windows of the averages.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

I, F = r"(\d+)", r"([\d.e+-]+)"  # noqa: E741
MS = 1e-3

COLUMNS = {
    "runs": "run first_line last_line world_size dtype device config printout",
    "steps": "run line step copy step_time_s forward_s backward_s tflops",
    "phases": "run line step rank rank_by phase occurrence time_s remote_share",
    "loads": "run line step rank rank_by unit amount remote",
    "values": "run line step rank rank_by key value",
    "summaries": "run line key value unit",
}
INTEGERS = {"run", "line", "step", "rank", "copy", "occurrence", "first_line", "last_line", "world_size"}
BACKWARD = f"perpare first backward gemm: {F},  fisrt gemm backward duration: {F},  weight grad: {F},  other: {F}"
BENCHMARK = (
    rf"\[Benchmark\] world_size = {I}, dtype = (\w+), model_dim = {I}, hidden_size = {I}, samples = {I}, "
    rf"num_local_experts = {I}, topK = {I}, a2a_ffn_overlap_degree = {I}, device = `(\S+)`"
)
STEP = rf"STEP-{I}: step_time = {F} ms, foward_time = {F}, backward_time = {F}, perf = {F} tflops\."
SUMMARY = rf"\[Summary\] Average synchronized step_time = {F} ms, forward = {F}, backward = {F}\."


class Reader:
    """Reads a log; `tables` holds a list per column."""

    def __init__(self):
        self.tables = {table: {name: [] for name in names.split()} for table, names in COLUMNS.items()}
        phases = self.tables["phases"]
        self.add_phase = [phases[name].append for name in "line rank rank_by phase time_s remote_share".split()]
        self.phase_lines = phases["line"]
        self.line = 0
        self.run = 0
        self.groups = []  # number of the step stretch each row of phases lies in
        self.closed = True
        self.rules = [
            (re.compile(pattern).fullmatch, handle)
            for pattern, handle in (  # the most frequent first
                (rf"AG, {F}, {F}, 0", self.gather),
                (rf"GA, {F}, {F}, 0", self.scatter),
                ("start", self.context),
                (rf"block_info {I} {I}", self.block_info),
                (rf"cuda:{I} process time:{F}, a: {F}, b: {F}, c: {F}, d: {F}", self.process),
                (rf"{I} wait time: {F}", self.wait),
                (I, self.count),
                (rf"perpare first forward gemm: {F},  fisrt gemm forward duration: {F}", self.prepare_forward),
                (rf"forward:  {F}", self.forward),
                (rf"Linear 2 Backward: {F}, second_gemm: {F}", self.linear2),
                (BACKWARD, self.prepare_backward),
                (rf"Linear 1 Backward:  {F}", self.linear1),
                (STEP, self.step),
                ("", self.context),
                (r"  .*", self.model),
                (r"\w+\(", self.model_begins),
                (r"\)", self.model),
                (rf"cuda:{I}", self.device),
                (rf"rank: {I}, nranks: {I}", self.mpi_rank),
                (BENCHMARK, self.benchmark),
                (SUMMARY, self.summary),
                (" end end end", self.end),
            )
        ]

    def read(self, path):
        rules = self.rules
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                self.line = number
                line = line.rstrip()
                for match, handle in rules:
                    found = match(line)
                    if found:
                        handle(found)
                        break
        if not self.closed:
            self.end(None)

    # --- runs -------------------------------------------------------------------------------------------------

    def start(self):
        """A line of the start of a run: begins one if the one before has ended or has a body."""
        if not self.closed and not self.body:
            return
        if not self.closed:
            self.end(None)
        self.run += 1
        self.closed = self.body = False
        self.first = self.line
        self.config, self.printout = {}, []
        self.first_row = {table: len(columns["run"]) for table, columns in self.tables.items()}
        self.group = 0
        self.depth = 0  # gathers without their prepare_forward in this step
        self.alone = -1  # row of the gather on the last such line, if no other was open
        self.partners = []  # rows of phases (prepare_forward) and the row of their gather
        self.copies = Counter()
        self.votes, self.voters = Counter(), Counter()
        self.waited = (-1, -1)  # line and rank of the last wait
        self.voted = set()

    def device(self, found):  # noqa: ARG002
        self.start()

    def mpi_rank(self, found):
        self.start()
        self.config["world_size"] = int(found[2])

    def model_begins(self, found):
        self.start()
        self.printout.append(found[0])

    def model(self, found):
        self.printout.append(found[0])

    def benchmark(self, found):
        self.start()
        names = "world_size dtype model_dim hidden_size samples num_local_experts top_k a2a_ffn_overlap_degree device"
        for name, value in zip(names.split(), found.groups(), strict=True):
            self.config[name] = int(value) if value.isdigit() else value

    def end(self, found):  # noqa: ARG002
        """The end of a run: steps and ranks of its rows are known now, by the votes of the whole run."""
        if self.closed:
            return
        self.closed = True
        phases, loads, values = (self.tables[t] for t in ("phases", "loads", "values"))
        self.fill(None)
        blocks = self.decide(self.votes, self.voters)
        votes, voters, seen, shares = Counter(), Counter(), set(), {}
        for i in range(self.first_row["loads"], len(loads["run"])):
            amount = loads["amount"][i]
            rank = blocks.get(amount)
            if rank is None:
                continue
            loads["rank"][i], loads["rank_by"][i] = rank, "fingerprint"
            pair = amount, loads["remote"][i]
            if pair not in shares:
                shares[pair] = round(float(np.float32(pair[1]) / np.float32(amount)), 6)
            votes[shares[pair], rank] += 1
            if (rank, loads["step"][i]) not in seen:
                seen.add((rank, loads["step"][i]))
                voters[rank] += 1
        for i in range(self.first_row["values"], len(values["run"])):
            rank = blocks.get(values["value"][i])
            if rank is not None:
                values["rank"][i], values["rank_by"][i] = rank, "fingerprint"
        share_ranks = self.decide(votes, voters)
        ranks, rules, names, groups = phases["rank"], phases["rank_by"], phases["phase"], self.groups
        first = self.first_row["phases"]
        for i, share in enumerate(phases["remote_share"][first:], first):
            if share is not None:
                rank = share_ranks.get(share)
                if rank is not None:
                    ranks[i], rules[i] = rank, "fingerprint"
        for row, gather in self.partners:
            if ranks[gather] is not None:
                ranks[row], rules[row] = ranks[gather], "adjacent"
        group, times, add = -1, {}, phases["occurrence"].append
        for i in range(first, len(ranks)):
            if groups[i] != group:
                group, times = groups[i], {}
            key = names[i], ranks[i]
            times[key] = count = times.get(key, 0) + 1
            add(count)
        runs = self.tables["runs"]
        row = [self.run, self.first, self.line, *(self.config.get(k) for k in ("world_size", "dtype", "device"))]
        row += [json.dumps(self.config), "\n".join(self.printout)]
        for name, value in zip(runs, row, strict=True):
            runs[name].append(value)

    @staticmethod
    def decide(votes, voters):
        """Keys that tell a rank: nine in ten of their votes name it, and it votes for them in half of its steps."""
        total, best = Counter(), {}
        for (key, rank), count in votes.items():
            total[key] += count
            best[key] = max(best.get(key, (0, -1)), (count, rank))
        return {
            key: rank
            for key, (count, rank) in best.items()
            if count >= 2 and count >= 0.9 * total[key] and count >= 0.5 * voters[rank]
        }

    # --- the lines of a step ----------------------------------------------------------------------------------

    def context(self, found):
        pass

    def phase(self, name, time, rank=None, rule=None, share=None):
        add_line, add_rank, add_rule, add_phase, add_time, add_share = self.add_phase
        add_line(self.line)
        add_rank(rank)
        add_rule(rule)
        add_phase(name)
        add_time(float(time) * MS)
        add_share(share)

    def gather(self, found):
        self.depth += 1
        self.alone = len(self.phase_lines) if self.depth == 1 else -1
        self.phase("gather_gemm", found[2], share=float(found[1]))

    def scatter(self, found):
        self.phase("gemm_scatter", found[2], share=float(found[1]))

    def block_info(self, found):
        self.body = True
        loads = self.tables["loads"]
        loads["line"].append(self.line)
        loads["rank"].append(None)
        loads["rank_by"].append(None)
        loads["unit"].append("block")
        loads["amount"].append(float(found[1]))
        loads["remote"].append(float(found[2]))

    def process(self, found):
        self.body = True
        rank, process, gate, exchange, select, dispatch = found.groups()
        rank = int(rank)
        self.phase("process", process, rank, "printed")
        self.phase("gate", gate, rank, "printed")
        self.phase("exchange", exchange, rank, "printed")
        self.phase("select", select, rank, "printed")
        self.phase("dispatch", dispatch, rank, "printed")

    def wait(self, found):
        rank = int(found[1])
        self.waited = self.line, rank
        self.phase("wait", found[2], rank, "printed")

    def count(self, found):
        value = float(found[1])
        line, rank = self.waited
        if line == self.line - 1:
            self.votes[value, rank] += 1
            self.voted.add(rank)
        values = self.tables["values"]
        values["line"].append(self.line)
        values["rank"].append(None)
        values["rank_by"].append(None)
        values["key"].append("blocks")
        values["value"].append(value)

    def prepare_forward(self, found):
        if self.alone >= 0 and self.depth == 1:
            row = len(self.phase_lines)
            self.partners += [(row, self.alone), (row + 1, self.alone)]
        self.depth -= 1
        self.alone = -1
        self.phase("prepare_forward", found[1])
        self.phase("gemm1_forward", found[2])

    def forward(self, found):
        self.phase("moe_forward", found[1])

    def linear2(self, found):
        self.phase("linear2_backward", found[1])
        self.phase("gemm2_backward", found[2])

    def prepare_backward(self, found):
        self.phase("prepare_backward", found[1])
        self.phase("gemm1_backward", found[2])
        self.phase("weight_grad", found[3])
        self.phase("other_backward", found[4])

    def linear1(self, found):
        self.phase("linear1_backward", found[1])

    def fill(self, step):
        """The run and the step of the rows since the last step line."""
        for table in ("phases", "loads", "values"):
            columns = self.tables[table]
            new = len(columns["line"]) - len(columns["run"])
            columns["run"].extend([self.run] * new)
            columns["step"].extend([step] * new)
            if table == "phases":
                self.groups.extend([self.group] * new)
        self.group += 1

    def step(self, found):
        step = int(found[1])
        self.fill(step)
        for rank in self.voted:
            self.voters[rank] += 1
        self.voted.clear()
        self.copies[step] += 1
        steps = self.tables["steps"]
        steps["run"].append(self.run)
        steps["line"].append(self.line)
        steps["step"].append(step)
        steps["copy"].append(self.copies[step])
        steps["step_time_s"].append(float(found[2]) * MS)
        steps["forward_s"].append(float(found[3]) * MS)
        steps["backward_s"].append(float(found[4]) * MS)
        steps["tflops"].append(float(found[5]))
        self.depth, self.alone = 0, -1

    def summary(self, found):
        summaries = self.tables["summaries"]
        for key, value in zip(("step_time", "forward", "backward"), found.groups(), strict=True):
            summaries["run"].append(self.run)
            summaries["line"].append(self.line)
            summaries["key"].append(key)
            summaries["value"].append(float(value) * MS)
            summaries["unit"].append("s")

    def write(self, folder):
        """Write the tables as Parquet."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns in self.tables.items():
            table = pa.table(
                {c: pa.array(values, pa.int64() if c in INTEGERS else None) for c, values in columns.items()}
            )
            pq.write_table(table, folder / f"{name}.parquet")


def main():
    reader = Reader()
    reader.read(sys.argv[1])
    reader.write(Path(sys.argv[2]))


if __name__ == "__main__":
    main()
