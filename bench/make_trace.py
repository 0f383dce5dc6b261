"""Makes benchmark traces and nsys exports, in the layout that PyTorch's profiler and Nsight Systems write.

    python bench/make_trace.py chrome FILE MB [--compact]     # Chrome JSON, laid out as Kineto does, or on one line
    python bench/make_trace.py nsys FILE MB                   # sqlite

Steps of a model of 32 layers: operators, the calls that launch their kernels, kernels, flow arrows, all-reduces.
Times are made by a fixed rule, so that a file of a size is always the same.
"""

import argparse
import json
import os
import random
import sqlite3
from pathlib import Path

EPOCH_NS = 1_712_195_495_505_582_988
LAYERS = 32
STEPS = 8  # that the profiler recorded, as its schedules do; a longer trace has longer steps
OPERATORS = (
    "aten::linear",
    "aten::addmm",
    "aten::layer_norm",
    "aten::gelu",
    "aten::view",
    "aten::dropout",
    "aten::add",
)
KERNELS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(cutlass::Params)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int, Array<char*, 2>)",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
)
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85051572224, "numSms": 108}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8, "pg_count": 1, "nccl_version": "2.20.5"},
    "with_stack": 0,
    "record_shapes": 1,
    "displayTimeUnit": "ms",
}


class Clock:
    """Nanoseconds that go on in uneven steps, and ids."""

    def __init__(self):
        self.random = random.Random(1)
        self.now = EPOCH_NS
        self.id = 0

    def go(self, most):
        self.now += self.random.randrange(200, most)
        return self.now

    def new(self):
        self.id += 1
        return self.id


def us(ns):
    """Microseconds with three decimals, exact."""
    return f"{ns // 1000}.{ns % 1000:03d}"


class Layout:
    """Events as text: as Kineto indents them, or compact."""

    def __init__(self, compact):
        self.compact = compact

    def x(self, cat, name, pid, tid, start, duration, args):
        name = json.dumps(name)
        if self.compact:
            rest = json.dumps(args, separators=(",", ":"))
            return (
                f'{{"ph":"X","cat":"{cat}","name":{name},"pid":{pid},"tid":{tid},'
                f'"ts":{us(start)},"dur":{us(duration)},"args":{rest}}}'
            )
        rest = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in args.items())
        return (
            f'  {{\n    "ph": "X", "cat": "{cat}", "name": {name}, "pid": {pid}, "tid": {tid},\n'
            f'    "ts": {us(start)}, "dur": {us(duration)},\n    "args": {{\n      {rest}\n    }}\n  }}'
        )

    def flow(self, ph, number, pid, tid, start):
        text = {"ph": ph, "id": number, "pid": pid, "tid": tid, "ts": 0, "cat": "ac2g", "name": "ac2g"}
        if ph == "f":
            text["bp"] = "e"
        return ("" if self.compact else "  ") + json.dumps(text).replace('"ts": 0', f'"ts": {us(start)}')


def batch(number, clock, out):
    """A micro-batch: the events of the host and of the device, as texts, and when it began and ended."""
    host, device = [], []
    begin = clock.go(2000)
    for layer in range(LAYERS):
        for place, name in enumerate(OPERATORS):
            external, start = clock.new(), clock.go(4000)
            dims = [[8, 1024, 4096], [4096, 4096], [4096]]
            args = {"External id": external, "Record function id": 0, "Sequence number": external, "Fwd thread id": 0}
            args |= {"Concrete Inputs": ["", "", ""], "Input type": ["c10::BFloat16"] * 3, "Input Dims": dims}
            length = 9000 + clock.go(900) % 977
            host.append(out.x("cpu_op", name, 4037, 4037, start, length, args))
            if place % 2:
                clock.now = start + length
                continue
            correlation, call = clock.new(), clock.go(2000)
            args = {"External id": external, "cbid": 211, "correlation": correlation}
            host.append(out.x("cuda_runtime", "cudaLaunchKernel", 4037, 4037, call, 4567, args))
            name, at, stream = KERNELS[(layer + place) % 4], call + 150_000, 7
            args = {"External id": external, "queued": 0, "device": 0, "context": 1, "stream": stream}
            args |= {"correlation": correlation, "registers per thread": 40, "shared memory": 0}
            args |= {"blocks per SM": 10.37037, "warps per SM": 82.96296, "grid": [1120, 1, 1], "block": [256, 1, 1]}
            args["est. achieved occupancy %"] = 100
            device.append(out.x("kernel", name, 0, stream, at, 11_000 + call % 5003, args))
            device.append(out.flow("s", correlation, 4037, 4037, call))
            device.append(out.flow("f", correlation, 0, stream, at))
            clock.now = start + length  # operators of a thread follow one another
        if layer % 4 == 3:
            correlation, start, call = clock.new(), clock.go(2000), clock.go(900)
            sizes = {"In msg nelems": 16_777_216, "Out msg nelems": 16_777_216, "Group size": 8, "dtype": "BFloat16"}
            said = {"Collective name": "allreduce", **sizes, "Process Group Name": "0", "Seq": number * 8 + layer // 4}
            host.append(
                out.x("user_annotation", "nccl:all_reduce", 4037, 4037, start, 30_000, {"External id": call % 99})
            )
            args = {"External id": correlation, "cbid": 211, "correlation": correlation}
            host.append(out.x("cuda_runtime", "cudaLaunchKernelExC", 4037, 4037, call, 4567, args))
            args = {"External id": correlation, "device": 0, "stream": 20, "correlation": correlation, **said}
            device.append(out.x("kernel", NCCL, 0, 20, call + 200_000, 800_000 + call % 7919, args))
            clock.now = start + 30_000
    return host, device, begin, clock.go(3000)


def chrome(path, size, compact=False):
    """Write about `size` MB: operators and calls first, what ran on the device behind them, as Kineto orders them."""
    out, clock = Layout(compact), Clock()
    between = "," if compact else ",\n"
    host, device, *_ = batch(0, clock, out)
    batches = max(STEPS, round(size * 1e6 / len(between.join(host + device))))
    clock = Clock()
    with open(path, "w") as file, open(f"{path}.device", "w") as later:
        file.write(json.dumps(HEAD)[:-1] + ', "traceEvents": [' + ("" if compact else "\n"))
        since = None
        for number in range(batches):
            host, device, begin, end = batch(number, clock, out)
            since = begin if since is None else since
            now, then = number * STEPS // batches, (number + 1) * STEPS // batches
            if then > now:
                host.append(out.x("user_annotation", f"ProfilerStep#{then}", 4037, 4037, since - 99, end - since, {}))
                since = None
            file.write(between.join(host) + between)
            later.write((between if number else "") + between.join(device))
        later.close()
        with open(later.name) as rest:
            while block := rest.read(1 << 22):
                file.write(block)
        name = {"ph": "M", "name": "process_name", "pid": 4037, "tid": 0, "ts": 0, "args": {"name": "python"}}
        file.write(f'{between}{json.dumps(name)}], "traceName": "made.pt.trace.json"}}\n')
    os.unlink(later.name)


TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, cuDevice INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
  registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
  dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
  gridId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER,
  domainId INTEGER, jsonTextId INTEGER, jsonText TEXT);
"""
ROW_BYTES = 134  # of a kernel, its call and a quarter of a copy and of a range


def nsys(path, size):
    """Write about `size` MB of sqlite."""
    Path(path).unlink(missing_ok=True)
    names = [*KERNELS, NCCL, "cudaLaunchKernel", "cudaMemcpyAsync"]
    count, thread = round(size * 1e6 / ROW_BYTES), 281479271678954
    with sqlite3.connect(path) as db:
        db.executescript(TABLES)
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(names, 1)))
        db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.24.0')")
        gpus = [(i, i) for i in range(2)]
        db.executemany("INSERT INTO TARGET_INFO_GPU VALUES (1, ?, 'NVIDIA A100-SXM4-80GB', ?)", gpus)
        at = [3_000_000_000 + i * 20_011 + i * 7919 % 5003 for i in range(count)]
        db.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 23)})",
            ((t + 90_000, t + 101_000 + t % 9001, i % 2, 1, 7 + 13 * (i % 5 == 4), i, thread, i % 5 + 1, i % 5 + 1,
              None, 0, 40, 1120, 1, 1, 256, 1, 1, 0, 49152, 0, 122159104, i)
             for i, t in enumerate(at)),
        )  # fmt: skip
        db.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,?,0,NULL)",
            ((t, t + 4567, thread, i, 6) for i, t in enumerate(at)),
        )
        db.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,0,1,7,?,?,?,1)",
            ((t + 5000, t + 9000, count + i, thread, 4096 + i) for i, t in enumerate(at[::4])),
        )
        db.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?,?,59,NULL,NULL,NULL,?,?,NULL,NULL,0,NULL,NULL)",
            # Behind the third call and before the fourth: ranges of a thread hold its calls whole.
            ((t - 100, t + 53_000, f"layer {i % 32}", thread) for i, t in enumerate(at[::4])),
        )
    db.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("chrome", "nsys"))
    parser.add_argument("file")
    parser.add_argument("megabytes", type=float)
    parser.add_argument("--compact", action="store_true")
    args = parser.parse_args()
    if args.kind == "chrome":
        chrome(args.file, args.megabytes, args.compact)
    else:
        nsys(args.file, args.megabytes)


if __name__ == "__main__":
    main()
