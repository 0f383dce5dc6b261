"""Failures: the kinds and their samples, texts of several lines, and who is accused, in logs as programs leave them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.torchrun import SUMMARY

import perflog
from perflog.formats.registry import known
from perflog.formats.sample_checks import sample_lines
from perflog.parsing.failures.kinds import kinds, reported


def read(tmp_path: Path, text: str, name: str = "run.log") -> perflog.Log:
    path = tmp_path / name
    path.write_text(text)
    return perflog.read(path)


def culprits(log: perflog.Log) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = perflog.diagnose(log).as_json()["culprits"]
    return found


def test_samples_of_formats_are_no_failures() -> None:
    """But for those that warn: a format says that they may report one."""
    lines = [line for form in known().values() for line in (*form.lines, *sample_lines(form)) if not line.warns]
    assert [text for line in lines for text in line.samples if reported(text) is not None] == []


def test_a_traceback_is_one_failure_with_its_chain(tmp_path: Path) -> None:
    text = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "a.py", line 1, in f
[rank3]:     raise KeyError("x")
[rank3]: KeyError: 'x'
[rank3]:
[rank3]: The above exception was the direct cause of the following exception:
[rank3]:
[rank3]: Traceback (most recent call last):
[rank3]:   File "a.py", line 2, in g
[rank3]: RuntimeError: Error(s) in loading state_dict for M:
[rank3]: \tsize mismatch for w
"""
    table = read(tmp_path, text).table("failures")
    assert table[["line", "last_line", "rank", "kind"]].values.tolist() == [[1, 11, 3, "checkpoint"]]


def test_tracebacks_of_ranks_that_interleave_are_apart(tmp_path: Path) -> None:
    lines = [
        "[rank0]: Traceback (most recent call last):",
        "[rank1]: Traceback (most recent call last):",
        '[rank0]:   File "a.py", line 1, in f',
        '[rank1]:   File "b.py", line 1, in g',
        "[rank1]: IndexError: list index out of range",
        "[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
    ]
    log = read(tmp_path, "\n".join(lines) + "\n")
    assert log.table("failures")[["rank", "kind", "role"]].values.tolist() == [
        [0, "remote_exit", "echo"],
        [1, "exception", "first"],
    ]
    assert [each["rank"] for each in culprits(log)] == [1]


def test_items_of_a_list_quote_other_jobs(tmp_path: Path) -> None:
    out = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    items = f"step: 1 | loss: 2.5\n- **large** on 4 nodes: [rank1]: {out}\n* small: [rank0]: {out}\n"
    assert not len(read(tmp_path, items).arrow("failures"))
    assert len(read(tmp_path, f"step: 1 | loss: 2.5 [rank1]: {out}\n").arrow("failures")) == 1


def test_the_summary_of_torchrun_names_the_first_process(tmp_path: Path) -> None:
    log = read(tmp_path, SUMMARY)
    rows = log.table("failures").query("kind != 'child_failed'")
    assert rows[["line", "rank", "node", "kind", "exit_code"]].values.tolist() == [
        [5, 9, "node2", "later_failed", 1],
        [14, 11, "node2", "first_failed", -9],
    ]
    (culprit,) = culprits(log)
    assert (culprit["rank"], culprit["node"], culprit["kind"]) == (11, "node2", "killed")


STEP = "step {0} | loss 4.990 | iter time 1.203 s"


def test_a_caught_exception_accuses_nobody(tmp_path: Path) -> None:
    caught = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "ValueError: no cache"]
    steps = [STEP.format(step) for step in range(1, 30)]
    log = read(tmp_path, "\n".join([*steps[:9], *caught, *steps[9:]]) + "\n")
    answer = perflog.diagnose(log)
    assert not answer.culprits
    assert "went on" in answer.verdict


def test_exceptions_of_rewards_end_no_job_whose_steps_go_on(tmp_path: Path) -> None:
    """Workers of reinforcement learning log each answer that they cannot score, until the log is copied."""
    caught = (
        "(Worker pid=57720) ERROR:2026-03-26 22:17:25,938:Traceback (most recent call last):\n"
        '(Worker pid=57720)   File "env.py", line 470, in update_state\n'
        "(Worker pid=57720)     action = extractor(text)\n"
        "(Worker pid=57720) TypeError: cannot unpack non-iterable NoneType object\n"
    )
    step = "(Runner pid=38606) step:{} - actor/loss:0.5 - timing_s/step:1065.5 - timing_s/gen:300.25\n"
    log = read(tmp_path, f"{step.format(1)}{caught}{caught}{step.format(2)}{caught}")
    assert perflog.diagnose(log).verdict.endswith("; the program went on after 1 failure text")
    other = caught.replace("TypeError: cannot unpack non-iterable NoneType object", "ValueError: no answer")
    log = read(tmp_path, f"{step.format(1)}{caught}{step.format(2)}{other}", "other.log")
    assert perflog.diagnose(log).verdict == "Ended by ValueError: no answer, line 7"


def test_tasks_that_start_launchers_are_no_ranks(tmp_path: Path) -> None:
    error = "1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of"
    exit = "srun: error: node018: task 1: Exited with exit code 1"
    (culprit,) = culprits(read(tmp_path, f"+ srun torchrun train.py\n{error}\n{exit}\n"))
    assert {name: culprit.get(name) for name in ("rank", "task", "gpu", "node")} == {
        "rank": None, "task": 1, "gpu": 3, "node": "node018",
    }  # fmt: skip


def test_the_line_after_an_exception_may_name_its_node(tmp_path: Path) -> None:
    text = (
        "step 1\n"
        'Traceback (most recent call last):\n  File "main_ppo.py", line 31, in main\n'
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.7, ID: fc2b) where the task (actor ID: f9cc, name=WorkerDict.init, pid=43, "
        "memory used=92.22GB) was running was 479.49GB / 503.58GB (0.95), which exceeds the threshold of 0.95.\n"
    )
    log = read(tmp_path, text)
    assert [culprit["node"] for culprit in culprits(log)] == ["10.0.0.7"]
    assert log.table("failures")["kind"].tolist() == ["host_out_of_memory"]


def test_the_files_of_ranks_and_the_log_of_the_kernel_are_one_job(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    echo = "RuntimeError: NCCL error: remote process exited or there was a network error\n"
    for rank in range(4):
        (folder / f"rank_{rank}.err").write_text("" if rank == 2 else f"{rank} begins\n{echo}")
    (folder / "rank_2.err").write_text("RuntimeError: CUDA error: unspecified launch failure\n")
    (folder / "dmesg.txt").write_text("[ 1.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=4, GPU has fallen off the bus.\n")
    (culprit,) = culprits(perflog.read(folder))
    assert (culprit["rank"], culprit["device"], culprit["kind"]) == (2, "0000:3b:00", "gpu_fault")


AS_PRINTED: dict[str, tuple[str, int | list[int] | None, str]] = {
    "time-outs of some ranks of a cut log": (
        "collective_timeout",
        None,
        """\
  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran
terminate called after throwing an instance of 'std::runtime_error'
  what():  [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran
terminate called after throwing an instance of 'std::runtime_error'
  what():  [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran
""",
    ),
    "an allocation of NCCL behind the connection that it closes": (
        "gpu_out_of_memory",
        None,
        """\
n1:3063025:3066048 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1-ib.x<51159>
n1:3063028:3066152 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'
""",
    ),
    "a task that may be a script": (
        "host_out_of_memory",
        None,
        """\
slurmstepd: error: Detected 1 oom_kill event in StepId=11.0. Some of the step tasks have been OOM Killed.
srun: error: n7: task 0: Out Of Memory
""",
    ),
    "the signal of a launcher": (
        "segmentation_fault",
        None,
        """\
Traceback (most recent call last):
  File "/opt/launch.py", line 259, in main
    cmd=cmd)
subprocess.CalledProcessError: Command '['python3', '-u', 'a.py', '--local_rank=7']' died with <Signals.SIGSEGV: 11>.
""",
    ),
    "a launcher's torn traceback": (
        "child_failed",
        None,
        """\
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 162) of binary: python
Traceback (most recent call last):
  File "/x/bin/torchrun", line 8, in <module>
    sys.exit(main())
""",
    ),
    "a time limit before the tasks that it ends": (
        "time_limit",
        None,
        """\
srun: Force Terminated job 322
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 322.0 ON n19 CANCELLED AT 2020-07-03T02:59:56 DUE TO TIME LIMIT ***
srun: error: n19: tasks 2,4-5,7: Terminated
""",
    ),
    "a traceback with an indent": (
        "gpu_error",
        None,
        """\
Traceback (most recent call last):
    File "/x/distributed_c10d.py", line 1771, in _new_process_group_helper
      backend_class = ProcessGroupNCCL(
                      ^^^^^^^^^^^^^^^^^
  RuntimeError: CUDA driver error: invalid device ordinal
""",
    ),
    "an error of the shell before a job that runs into its limit": (
        "time_limit",
        None,
        """\
CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.
  0%|          | 0/50 [00:00<?, ?it/s]
 22%|##2       | 11/50 [1:55:26<6:49:05, 629.37s/it]
slurmstepd: error: *** JOB 42221 ON clr1247 CANCELLED AT 2022-04-14T16:20:46 DUE TO TIME LIMIT ***
""",
    ),
    "a launcher that ends the others": (
        "first_failed",
        3,
        """\
WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4045370 closing signal SIGTERM
WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4045371 closing signal SIGTERM
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 2) local_rank: 3 (pid: 4045373) of binary: python
============================================================
run_mae_pretraining.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-11-20_12:41:04
  host      : daniserver
  rank      : 3 (local_rank: 3)
  exitcode  : 2 (pid: 4045373)
============================================================
""",
    ),
    "a rank that waits for those that load": (
        "remote_exit",
        None,
        """\
[2025-03-17 17:15:55 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File "/x/sglang/srt/model_executor/model_runner.py", line 417, in load_model
    raise ValueError(
ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading. It is \
likely due to unexpected failures (e.g., OOM) or a slow node.
""",
    ),
    "a loss that is not finite": (
        "not_a_number",
        None,
        """\
ERROR [02/10 22:55:41 d2.engine.train_loop]: Exception during training:
Traceback (most recent call last):
  File "/x/detectron2/engine/train_loop.py", line 239, in _detect_anomaly
    self.iter, loss_dict
FloatingPointError: Loss became infinite or NaN at iteration=137!
loss_dict = {'loss_mask': tensor(0.7000, device='cuda:1', grad_fn=<BinaryCrossEntropyWithLogi
""",
    ),
    "a process that Composer's launcher saw crash": (
        "crash",
        2,
        """\
Building trainer...
ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.
Waiting up to 30 seconds for all training processes to terminate. Press Ctrl-C to exit immediately.
/x/resource_tracker.py:237: UserWarning: '/af_barrier': [Errno 2] No such file or directory: '/af_barrier'
""",
    ),
    "a process that PALS saw crash, and one that it killed": (
        "segmentation_fault",
        0,
        """\
x1921c3s0b0n0: rank 4 died from signal 9
x1921c3s0b0n0: rank 0 died from signal 11 and dumped core
""",
    ),
    "the process that Paddle's launcher names": (
        "child_failed",
        3,
        """\
INFO 2021-05-24 17:17:14,611 launch_utils.py:307] terminate all the procs
ERROR 2021-05-24 17:17:14,611 launch_utils.py:545] ABORT!!! Out of all 4 trainers, the trainer process with \
rank=[3] was aborted. Please check its log.
""",
    ),
    "a worker of vLLM that died, and a torn traceback": (
        "actor_died",
        3,
        """\
ERROR 11-08 11:01:29 [executor.py:135] Worker proc VllmWorker-3 died unexpectedly, shutting down executor.
ERROR 11-08 11:01:30 [core.py:502] EngineCore encountered a fatal error.
ERROR 11-08 11:01:30 [core.py:502] Traceback (most recent call last):
ERROR 11-08 11:01:30 [core.py:502]   File "/x/engine/core.py", line 493, in run_engine_core
""",
    ),
    "the watchdogs of SGLang, and what the shell tells of the process": (
        "no_progress",
        None,
        """\
[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)
[2025-03-09 00:57:16 TP3] Watchdog timeout (self.watchdog_timeout=300)
[2025-03-09 00:57:20] Received sigquit from a child proces. It usually means the child failed.
Killed
""",
    ),
    "the memory limit of LSF, and what the shell tells of the process": (
        "host_out_of_memory",
        None,
        """\
/home/a/.lsbatch/1604335277.shell: line 14: 94460 Killed                  python main.py
TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.
Exited with exit code 137.
""",
    ),
    "the time limit of LSF, long after a traceback of which the program warned": (
        "time_limit",
        None,
        """\
[2023-11-29 11:05:15,440] torch._dynamo.convert_frame: [WARNING] Traceback (most recent call last):
[2023-11-29 11:05:15,440] torch._dynamo.convert_frame: [WARNING]   File "/x/futures/_base.py", line 403, in __get_result
[2023-11-29 11:05:15,440] torch._dynamo.convert_frame: [WARNING]     raise self._exception
[2023-11-29 11:05:15,440] torch._dynamo.convert_frame: [WARNING] FileNotFoundError: [Errno 2] No such file: 'ldconfig'
User defined signal 2
TERM_RUNLIMIT: job killed after reaching LSF run time limit.
""",
    ),
    "a worker of Ray that died, and a torn traceback": (
        "actor_died",
        None,
        """\
ERROR 07-09 13:21:18 [core.py:396] The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR
Process EngineCore_0:
Traceback (most recent call last):
  File "/x/multiprocessing/process.py", line 314, in _bootstrap
""",
    ),
    "a task of JAX that no longer answers": (
        "lost_process",
        37,
        """\
2022-11-15 16:03:15.140058: E coordination_service.cc:954] /job:jax_worker/replica:0/task:37 has been set to ERROR in \
coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that the \
remote task has failed, got preempted, or crashed unexpectedly.
""",
    ),
    "tasks of JAX that do not meet": (
        "rendezvous_timeout",
        [0, 3],
        """\
  File "/x/jax_utils.py", line 75, in multihost_broadcast_sync
jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: sync0. Timed out task names:
/job:jax_worker/replica:0/task:3
/job:jax_worker/replica:0/task:0
""",
    ),
    "an engine that says that another one died": (
        "remote_exit",
        None,
        """\
ERROR 08-15 17:38:13 [async_llm.py:416] AsyncLLM output_handler failed.
ERROR 08-15 17:38:13 [async_llm.py:416] Traceback (most recent call last):
ERROR 08-15 17:38:13 [async_llm.py:416]   File "/x/vllm/v1/engine/core_client.py", line 751, in get_output_async
ERROR 08-15 17:38:13 [async_llm.py:416]     raise self._format_exception(outputs) from None
ERROR 08-15 17:38:13 [async_llm.py:416] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.
""",
    ),
    "Horovod's ranks that follow another": (
        "remote_exit",
        None,
        """\
Traceback (most recent call last):
  File "main.py", line 45, in <module>
    model.fit(x=x, y=np.ones(1), verbose=2)
tensorflow.python.framework.errors_impl.UnknownError:  Horovod has been shut down. This was caused by an exception on
one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution.
""",
    ),
    "a device that others tear down, and a torn traceback": (
        "remote_exit",
        None,
        """\
Exception in device=TPU:7: xrt_computation_client.cc:383 : Check failed: session->session()->Run(outputs) (Cancelled: \
From /job:tpu_worker/replica:0/task:0:
Cancelled by TearDown. vs. OK)
Traceback (most recent call last):
  File "/x/torch_xla/distributed/xla_multiprocessing.py", line 330, in _mp_start_fn
    _start_fn(index, pf_cfg, fn, args)
""",
    ),
    "a server that answers with the text of the failure": (
        "exception",
        None,
        """\
[2026-06-09 03:35:23] Error in request: call aclnnInplaceCopy failed, error code is 161002
Traceback (most recent call last):
  File "serving_base.py", line 107, in handle_request
    return await self._handle(request)
RuntimeError: call aclnnInplaceCopy failed, error code is 161002
[2026-06-09 03:35:23] Initialization failed. warmup error: Traceback (most recent call last):
  File "http_server.py", line 2018, in _execute_server_warmup
    assert res.status_code == 200, f"{res.text}"
AssertionError: {"message":"Internal server error: call aclnnInplaceCopy failed, error code is 161002"}
""",
    ),
    "tasks that all end by the same signal": (
        "segmentation_fault",
        [0, 1],
        """\
        srun: error: nid04277: task 1: Segmentation fault (core dumped)
        srun: Terminating job step 20370799.1
        srun: error: nid04276: task 0: Segmentation fault (core dumped)
""",
    ),
    "a process whose traceback torch repeats": (
        "gpu_error",
        1,
        """\
Traceback (most recent call last):
  File "/x/torch/multiprocessing/spawn.py", line 119, in join
    raise Exception(msg)
Exception:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/x/torch/multiprocessing/spawn.py", line 20, in _wrap
    fn(i, *args)
RuntimeError: CUDA error: an illegal memory access was encountered
""",
    ),
    "a watchdog that tells of an error or a time-out": (
        "remote_exit",
        None,
        """\
[rank7]:[E909 09:55:29.974288167 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank 7] Exception (either an error or \
timeout) detected by watchdog at work: 2070, last enqueued NCCL work: 2082, last completed NCCL work: 2069.
[rank7]:[E909 09:55:29.974298167 ProcessGroupNCCL.cpp:1709] [PG 0 (default_pg) Rank 7] NCCL error: remote process \
exited or there was a network error
""",
    ),
    "a task that exits, and one that is aborted then": (
        "task_exit",
        0,
        """\
srun: error: gpu-node1: task 0: Exited with exit code 1
/app/slurm/run.sh: line 197: 2985003 Aborted                 (core dumped) "${BASE_CMD[@]}" 2>&1
srun: error: gpu-node2: task 1: Exited with exit code 134
gpu-node2:2985003:2985024 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n1<45074>
[rank1]:[E ProcessGroupNCCL.cpp:583] [Rank 1] To avoid data inconsistency, we are taking the entire process down.
""",
    ),
    "an engine that its server sees fail, which tells the root cause above": (
        "gpu_unavailable",
        None,
        """\
Process SpawnProcess-1:
Traceback (most recent call last):
  File "/x/torch/cuda/__init__.py", line 399, in set_device
    torch._C._cuda_setDevice(device)
RuntimeError: CUDA error: invalid device ordinal
Traceback (most recent call last):
  File "/x/vllm/v1/engine/utils.py", line 664, in wait_for_engine_startup
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
""",
    ),
    "an exception in a group of exceptions": (
        "missing_file",
        None,
        """\
ERROR:    Exception in ASGI application
  + Exception Group Traceback (most recent call last):
  |   File "/x/starlette/_utils.py", line 87, in collapse
  |     yield
  | exceptiongroup.ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/x/app.py", line 72, in prepare
    | FileNotFoundError: [Errno 2] No such file or directory: '/data/a.bin'
    +------------------------------------
""",
    ),
    "an engine of which only a request tells that it is dead": (
        "remote_exit",
        None,
        """\
Traceback (most recent call last):
  File "/x/vllm/engine/async_llm_engine.py", line 9, in add_request
vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop is not running.
""",
    ),
    "a coordinator that does not answer: those who tell it are not accused": (
        "link_error",
        None,
        """\
[rank0] :UNAVAILABLE:failed to connect to all addresses; last error: UNKNOWN:
ipv4:10.0.0.145:13305: Failed to connect to remote host: Connection refused
[rank3] WatchTasksAsync failed for task 3: UNAVAILABLE: failed to connect to all addresses
""",
    ),
    "a warning of PyTorch's socket, which a format for any log knows, before a torn traceback": (
        "rendezvous_timeout",
        None,
        """\
[W228 18:45:15.738941174 socket.cpp:462] [c10d] waitForInput: poll for socket SocketImpl(fd=11, addr=[node-3]:38674, \
remote=[::ffff:10.0.0.162]:23456) returned 0, likely a timeout
[W228 18:45:15.741177013 socket.cpp:487] [c10d] waitForInput: socket SocketImpl(fd=11, addr=[node-3]:38674, \
remote=[::ffff:10.0.0.162]:23456) timed out after 900000ms
Traceback (most recent call last):
  File "/x/torch/distributed/run.py", line 923, in <module>
    main()
""",
    ),
}


@pytest.mark.parametrize("name", AS_PRINTED)
def test_failures_as_programs_print_them(name: str, tmp_path: Path) -> None:
    kind, rank, text = AS_PRINTED[name]
    answer = perflog.diagnose(read(tmp_path, text))
    assert answer.kind == kind
    ranks = rank if isinstance(rank, list) else [] if rank is None else [rank]
    assert [each.rank for each in answer.culprits if each.rank is not None] == ranks


STARTED_AGAIN = """\
07/15/2023 04:57:51 - WARNING - pet.core.parse - `ddp_find_unused_parameters` needs to be set as False
07/15/2023 04:57:51 - INFO - pet.core.parse - Process rank: 0, device: cuda:0, n_gpu: 1
Traceback (most recent call last):
  File "/w/train.py", line 65, in init_adapter
AssertionError: Provided path (/w/checkpoint-1) does not contain a LoRA weight.
07/15/2023 13:02:46 - WARNING - pet.core.parse - `ddp_find_unused_parameters` needs to be set as False
{between}Traceback (most recent call last):
  File "/w/train.py", line 1, in <module>
ModuleNotFoundError: No module named 'datasets'
nohup: ignoring input
07/17/2023 06:01:10 - WARNING - pet.core.parse - `ddp_find_unused_parameters` needs to be set as False
Traceback (most recent call last):
  File "/w/train.py", line 65, in init_adapter
AssertionError: Provided path (/w/checkpoint-2) does not contain a LoRA weight.
"""


def test_a_first_line_that_stands_behind_failures_again_is_that_of_a_new_start(tmp_path: Path) -> None:
    """Its time stamp differs. A line that is printed elsewhere too, such as that of each step, tells no start."""
    answer = perflog.diagnose(read(tmp_path, STARTED_AGAIN.format(between="")))
    assert (answer.kind, "/w/checkpoint-2" in answer.verdict) == ("checkpoint", True)
    other = "".join(f"batch {n}\n" for n in range(9)) + STARTED_AGAIN.splitlines()[5] + "\n"
    sections = read(tmp_path, STARTED_AGAIN.format(between=other), "b.log").table("failures")["section"]
    assert set(sections) == {0}


def test_the_message_of_an_abort_and_of_a_panic_stands_in_the_next_line(tmp_path: Path) -> None:
    text = """\
terminate called after throwing an instance of 'oneflow::Exception'
  what():  the shape has no such axis
  File "liboneflow.so", line <unknown>, in
thread 'tokio-runtime-worker' panicked at src/router.rs:112:50:
the lock is poisoned
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
    rows = read(tmp_path, text).table("failures")
    assert rows[["kind", "last_line"]].values.tolist() == [["abort", 2], ["exception", 5]]
    assert rows["message"].str.split("\n").str[1].tolist() == [
        "what():  the shape has no such axis",
        "the lock is poisoned",
    ]


def test_what_stands_behind_an_indented_traceback_is_not_of_it(tmp_path: Path) -> None:
    text = """\
      message: |-
          RuntimeError: Traceback (most recent call last):
            File "/x/serve.py", line 3, in initialize
          ValueError: bfloat16 is not supported for awq
  qwen:
    status: RUNNING
"""
    rows = read(tmp_path, text).table("failures")
    assert rows[["line", "last_line", "message"]].values.tolist() == [
        [2, 4, "ValueError: bfloat16 is not supported for awq"]
    ]


def test_what_processes_of_ray_repeat_accuses_none_of_them(tmp_path: Path) -> None:
    label = "(RayWorkerWrapper pid=269885, ip=10.0.0.7) ERROR 04-11 11:26:12 [worker_base.py:620] "
    lines = [
        "Traceback (most recent call last): [repeated 7x across cluster]",
        '  File "/x/worker.py", line 9, in load_model',
        "KeyError: 'layers.61.w2' [repeated 7x across cluster]",
    ]
    log = read(tmp_path, "".join(f"{label}{line}\n" for line in lines))
    assert log.table("failures")[["message", "count"]].values.tolist() == [["KeyError: 'layers.61.w2'", 7]]
    assert not culprits(log)


def test_a_warning_that_another_process_went_away_ends_nothing(tmp_path: Path) -> None:
    """Rank 0, which holds the store, ends first where all is well."""
    text = (
        "[rank3]:[W1201 10:00:00.738941174 ProcessGroupNCCL.cpp:1641] [PG ID 0 PG GUID 0(default_pg) Rank 3] Failed to "
        'check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: '
        "Broken pipe\n"
    )
    assert perflog.diagnose(read(tmp_path, DONE + text)).kind is None


def test_the_rank_that_a_barrier_names_is_accused(tmp_path: Path) -> None:
    samples = (sample for kind in kinds().values() for text in kind.text for sample in text.samples)
    text = next(sample for sample in samples if "successfully reached monitoredBarrier" in sample)
    assert [each["rank"] for each in culprits(read(tmp_path, text + "\n"))] == [5]


OF_A_GROUP = (
    "(Actor pid=7, ip=10.0.0.{node}) [rank{rank}]:[E416 13:21:26.967375581 ProcessGroupNCCL.cpp:616] [Rank {of_group}] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=87, OpType=BROADCAST, NumelIn=8, NumelOut=8, "
    "Timeout(ms)=600000) ran for 600089 milliseconds before timing out.\n"
)


def test_the_label_of_a_logger_is_the_rank_and_that_of_the_message_may_be_of_a_group(tmp_path: Path) -> None:
    text = OF_A_GROUP.format(node=1, rank=9, of_group=1) + OF_A_GROUP.format(node=2, rank=12, of_group=0)
    log = read(tmp_path, text)
    assert log.table("failures")[["rank", "rank_by"]].values.tolist() == [[9, "label"], [12, "label"]]
    assert perflog.diagnose(log).verdict == "Ended by a collective that timed out (BROADCAST after 600.1 s), line 1"


@pytest.mark.parametrize("date", ["E416", "E1224"])  # before October and since
def test_the_label_of_a_logger_is_the_rank_all_year(tmp_path: Path, date: str) -> None:
    line = OF_A_GROUP.format(node=1, rank=9, of_group=1).replace("E416", date)
    assert read(tmp_path, line).table("failures")["rank"].tolist() == [9]


@pytest.mark.parametrize(
    ("group", "absent"), [("PG ID 3 PG GUID 7(EXPERT_PG)", []), ("PG ID 0 PG GUID 0(default_pg)", [2])]
)
def test_the_rank_in_a_group_is_none_of_the_job(tmp_path: Path, group: str, absent: list[int]) -> None:
    line = (
        "[E105 10:00:00.000000 ProcessGroupNCCL.cpp:607] [{} Rank {}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=ALLTOALL, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600000 milliseconds "
        "before timing out.\n"
    )
    steps = "".join(f"step {number} | loss 2.5 | 100.5 ms\n" for number in range(1, 9))
    text = steps + "".join(line.format(group, rank) for rank in (0, 1, 3))
    assert [each["rank"] for each in culprits(read(tmp_path, text))] == absent


def test_an_address_of_any_node_names_none(tmp_path: Path) -> None:
    text = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tip: {}\n"
    found = [culprits(read(tmp_path, text.format(ip), f"{ip}.log")) for ip in ("0.0.0.0", "10.0.0.7")]
    assert [[each["node"] for each in each_log] for each_log in found] == [[], ["10.0.0.7"]]


def test_processes_on_tpus_are_told_apart_by_their_device(tmp_path: Path) -> None:
    text = "Exception in device=TPU:5: Aborted: Session f2e0 is not found.\nterminate called recursively\n"
    assert culprits(read(tmp_path, text))[0]["device"] == "TPU:5"


TORN_BEFORE_SUMMARY = """\
Traceback (most recent call last):
  File "/w/train.py", line 3544, in <module>
Traceback (most recent call last):
  File "/w/train.py", line 3544, in <module>
Traceback (most recent call last):
    with open(yaml_filename) as _file:  File "/w/train.py", line 3544, in <module>
 ^^ ^ ^ ^^^FileNotFoundError^: ^[Errno 2] No such file or directory: '/w/config/a.yaml'^
FileNotFoundError: [Errno 2] No such file or directory: '/w/config/a.yaml'
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-06-09_19:52:21
  host      : c562-009
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 1321826)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-06-09_19:52:21
  host      : c562-009
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 1321825)
============================================================
"""


def test_the_summary_behind_torn_tracebacks_is_one(tmp_path: Path) -> None:
    """Tracebacks of several processes are torn, and some never end: `Failures:` is no exception that ends them."""
    answer = perflog.diagnose(read(tmp_path, TORN_BEFORE_SUMMARY))
    assert (answer.kind, answer.certainty) == ("missing_file", "one of")
    assert sorted(each.rank for each in answer.culprits if each.rank is not None) == [0, 1]


def test_of_ranks_that_run_out_of_memory_none_is_the_first(tmp_path: Path) -> None:
    """They ask for different amounts."""
    line = "[rank{0}]: RuntimeError: NPU out of memory. Tried to allocate {1} (NPU {0}; 60.96 GiB total capacity)\n"
    text = "".join(line.format(rank, amount) for rank, amount in ((7, "728.00 MiB"), (2, "1.66 GiB"), (1, "1.66 GiB")))
    answer = perflog.diagnose(read(tmp_path, text))
    assert (answer.kind, answer.certainty) == ("gpu_out_of_memory", "one of")
    assert sorted(each.rank for each in answer.culprits if each.rank is not None) == [1, 2, 7]


def test_a_device_in_the_message_of_an_exception_is_not_accused(tmp_path: Path) -> None:
    text = "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.\n"
    answer = perflog.diagnose(read(tmp_path, f'Traceback (most recent call last):\n  File "a.py", line 1\n{text}'))
    assert (answer.kind, answer.culprits) == ("exception", [])


# --- made jobs with a planted culprit -----------------------------------------------------------------------------

LABELS = ("[rank{0}]: ", "{0}: ", "[1,{0}]<stderr>:", "[default{0}]:")
OWN = {
    "gpu_out_of_memory": ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."],
    "exception": ["Traceback (most recent call last):", '  File "d.py", line 3, in get', "KeyError: 'tokens_17'"],
    "gpu_error": ["RuntimeError: CUDA error: an illegal memory access was encountered"],
    "segmentation_fault": ["Fatal Python error: Segmentation fault"],
}
ECHOES = (
    "RuntimeError: NCCL error: remote process exited or there was a network error",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:2391",
    "torch.distributed.DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed.",
)
TIMEOUT = (
    "[E626 16:48:25.440240649 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=120, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600014 milliseconds "
    "before timing out."
)


def made_job(random: random.Random) -> tuple[str, int, str]:
    """A failing job: its log, its culprit, and the kind."""
    label = random.choice(LABELS)
    ranks = 8 if "default" in label else random.choice([8, 16, 32, 64])
    culprit = random.randrange(ranks)
    lines = [label.format(0) + STEP.format(step) for step in range(1, random.randrange(5, 15))]
    streams: list[list[str]] = []
    if random.random() < 0.3:
        kind = "collective_timeout"
        streams = [[label.format(r) + TIMEOUT.format(r)] for r in range(ranks) if r != culprit]
    else:
        kind = random.choice(list(OWN))
        echo = random.choice(ECHOES)
        streams = [[label.format(r) + echo] for r in range(ranks) if r != culprit and random.random() < 0.8]
        streams.append([label.format(culprit) + line for line in OWN[kind]])
    random.shuffle(streams)
    while streams:  # as the processes print: each in its order
        stream = random.choice(streams[:4])
        lines.append(stream.pop(0))
        if not stream:
            streams.remove(stream)
    for _ in range(random.randrange(3)):  # the tail of a line is lost, but not of those that tell the kind
        row = random.randrange(4)
        lines[row] = lines[row][: random.randrange(10, len(lines[row]))]
    return "\n".join(lines) + "\n", culprit, kind


def test_the_culprit_of_made_jobs_is_never_a_wrong_rank(tmp_path: Path) -> None:
    found = 0
    for seed in range(12):
        text, culprit, kind = made_job(random.Random(seed))
        answer = perflog.diagnose(read(tmp_path, text, f"job{seed}.log"))
        ranks = [each.rank for each in answer.culprits if each.rank is not None]
        assert set(ranks) <= {culprit}, (seed, kind, ranks, culprit)
        found += ranks == [culprit] and answer.kind == kind
    assert found >= 11


def test_lines_of_failures_are_read(tmp_path: Path) -> None:
    """Each line of a traceback, of a summary, and of a stack of C++ belongs to a failure; a line between does not."""
    stack = (
        "[rank1]:[E626 16:48:25.440240649 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600014 ms\n"
        "Exception raised from checkTimeout at ../ProcessGroupNCCL.cpp:632 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0xb0 (0x7f)\n"
    )
    trace = "".join(
        f"[rank3]: {x}\n" for x in ("Traceback (most recent call last):", '  File "a.py", line 1', "    f(7)")
    )
    between = "some 4 other words\n"
    log = read(tmp_path, trace + between + "[rank3]: ValueError: 5\n" + between + SUMMARY + stack)
    lines = log.table("lines").set_index("status")
    assert lines.loc[["unread"], "sample"].tolist() == [between.strip(), SUMMARY.partition("\n")[0]]
    assert lines.loc["read", "count"] == (trace + SUMMARY + stack).count("\n")
    assert lines.loc["read", "figures_unread"] == 0


def test_a_log_that_stops_without_a_failure_tells_where(tmp_path: Path) -> None:
    row = (
        "[rank{}]: iteration {:8d}/     100 | consumed samples:          128 | elapsed time per iteration (ms): 3000.0 "
        "| global batch size:   128 | lm loss: 9.0E+00 |\n"
    )
    text = "".join(row.format(rank, step) for step in range(1, 9) for rank in range(4) if rank != 2 or step < 6)
    found = perflog.diagnose(read(tmp_path, text))
    assert found.verdict == "no failure is reported; the log stops at step 8 of 100 (line 29)"
    assert list(found.evidence) == ["the last step of rank 2 is 5, of the others 8"]
    assert not found.culprits


def test_warnings_that_repeat_are_one_notice_of_each_rank(tmp_path: Path) -> None:
    """Retries of the allocator at each step: one row for each rank, told on the screen with steps and memory."""
    row = (
        "[rank{0}]:[titan] 2026-01-01 10:00:{1:02d},554 - root - WARNING - {1} CUDA memory allocation retries.\n"
        "[rank{0}]:[titan] 2026-01-01 10:00:{1:02d},555 - root - INFO - step: {1:2d}  loss: 11.00000  grad_norm: "
        "10.0000  memory: 30.00GiB(95.84%)  tps: 45,000  tflops: 34.00  mfu: 10.90%\n"
    )
    text = "".join(row.format(rank, step) for step in range(1, 9) for rank in range(2))
    log = read(tmp_path, text)
    table = log.table("failures")
    names = ["kind", "severity", "rank", "count", "line", "last_line"]
    assert table[names].values.tolist() == [
        ["allocator_retry", "notice", 0, 8, 1, 29],
        ["allocator_retry", "notice", 1, 8, 3, 31],
    ]
    found = perflog.lint(log).set_index("code").loc["costly-warnings"]
    assert found["severity"] == "warning"
    assert found["message"].endswith("16 warnings, lines 1 to 31, steps 1 to 8, ranks 0, 1; memory 95.8 % in use")
    assert perflog.diagnose(log).kind is None
    assert perflog.overview(log).outcome == [found["message"]]


def summary(*reports: tuple[int, int]) -> str:
    """The summary of torchrun of processes, by rank and exit code; the first is the one that failed first."""
    entry = "[{}]:\n  time      : 2024-05-01_12:00:02\n  host      : n1\n  rank      : {} (local_rank: {})\n"
    entry += "  exitcode  : {} (pid: 4202)\n"
    (first, *others) = [entry.format(i, rank, rank, code) for i, (rank, code) in enumerate(reports)]
    later = "".join(others) or "  <NO_OTHER_FAILURES>\n"
    dashes = "-" * 60 + "\n"
    return (
        f"train.py FAILED\n{dashes}Failures:\n{later}{dashes}Root Cause (first observed failure):\n{first}{'=' * 60}\n"
    )


WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:737] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=78, "
    "OpType=BROADCAST, Timeout(ms)=600000) ran for 600096 milliseconds before timing out.\n"
)
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
BAR = "Training:  36%|###      | 10800/30000 [12:12<21:42, 14.74it/s, Loss=0.0235506]\n"
CLOSED = (
    "[rank{}]: RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.7]:57000\n"
)
ABORT = (
    "Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n"
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    "srun: error: n126: tasks 0-35: Killed\n"
)
STALLED = (
    "[0] [2023-06-26 07:23:58.4: W stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered"
    " or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds. \n"
    "[0] Missing ranks:\n[0] {}\n"
)
HOROVOD = """\
x
RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be \
terminated. The first process to do so was:
Process name: elastic-test-worker-1[0]
Exit code: 137
"""
BUILD = """\
x
[rank1]: Traceback (most recent call last):
[rank1]:   File "torch/utils/cpp_extension.py", line 2105, in _run_ninja_build
[rank1]:     subprocess.run(
[rank1]: subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.

[rank1]: The above exception was the direct cause of the following exception:

[rank1]: Traceback (most recent call last):
[rank1]:   File "trainer.py", line 163, in <module>
"""
THREADS = """\
x
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR
(W pid=7) [2025-03-04 19:28:30,014 E 7 7] logging.cc:113: Unhandled exception: N5boost. what(): thread: Resource \
temporarily unavailable [system:11]
"""
SGLANG_MEMORY = (
    "[2025-04-09 17:19:56 TP{0}] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "a.py", line 1, in f\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.43 GiB. GPU {0} has a total of 79.44 GiB\n\n"
)
TORN_LAUNCHER = """\
x
Traceback (most recent call last):
File "/opt/python3.10/site-packages/torch/distributed/run.py", line 923, in <module>
main()
"""
UNSCHEDULED = (
    "  Warning  FailedScheduling  5m  default-scheduler  0/1 nodes are available: 1 Insufficient nvidia.com/gpu.\n"
)
JUDGED = {
    "an exception without a rank is that of the only process that torchrun saw fail": (
        TRACE + "ValueError: bad record\n" + summary((4, 1)), "exception", [4], "likely"
    ),
    "of several that it saw, one of them": (
        TRACE + "ValueError: bad record\n" + summary((2, 1), (3, 1)), "exception", [2, 3], "one of"
    ),
    "a process that aborts may be an echo": (
        TRACE + "ValueError: bad record\n" + summary((4, -6)), "exception", [], "likely"
    ),
    "a job killed while its output of every second step is still to be printed": (
        "".join(STEP.format(step) + "\n" for step in (89, 91, 93))
        + "slurmstepd: error: Job 7518 exceeded memory limit (626359956 > 512000000), being killed\n"
        + "slurmstepd: error: *** JOB 7518 ON xantipa CANCELLED AT 2022-06-10T17:11:35 ***\n"
        + STEP.format(95)
        + "\n",
        "host_out_of_memory",
        [],
        "sure",
    ),
    "ranks of SGLang that run out of memory in the same second": (
        "".join(SGLANG_MEMORY.format(rank) for rank in (5, 6)),
        "gpu_out_of_memory",
        [5, 6],
        "one of",
    ),
    "a traceback of the launcher that was pasted without its indent": (
        TORN_LAUNCHER,
        "child_failed",
        [],
        "unknown",
    ),
    "an error that MPI tells": ("x\n*** An error occurred in MPI_Init_thread\n", "mpi_error", [], "sure"),
    "the exit code that Horovod prints below the process": (HOROVOD, "killed", [], "likely"),
    "the block of MPICH and Intel MPI": (
        "x\n=   RANK 3 PID 2371 RUNNING AT cn041\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n",
        "segmentation_fault",
        [3],
        "likely",
    ),
    "a build that failed, with its traceback cut": (BUILD, "build_failed", [1], "sure"),
    "the limit of threads that ended Ray's worker": (THREADS, "process_limit", [], "sure"),
    "a pod that could not be scheduled": ("x\n" + UNSCHEDULED, "launch_failed", [], "sure"),
    "a pod that was scheduled in the end": (
        BAR + UNSCHEDULED + "  Normal  Scheduled  2m  default-scheduler  Successfully assigned ns/train-0 to gpu-7\n",
        None,
        [],
        "unknown",
    ),
    "only its signal is left": (summary((0, -6)), "abort", [0], "likely"),
    "ranks that only saw a connection close were not in the collective": (
        "".join(map(WATCHDOG.format, (1, 2, 3, 5, 6, 7))) + CLOSED.format(0) + CLOSED.format(4),
        "collective_timeout", [0, 4], "likely",
    ),
    "a line that is cut names no operation": (
        "".join(map(WATCHDOG.format, (1, 3, 2, 6, 7))) + WATCHDOG.format(5).partition("CAST")[0] + "\n",
        "collective_timeout", [], "unknown",
    ),
    "a bar prints its last state when an exception closes it": (
        TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 372.00 MiB. GPU 0 has 7.69 GiB.\n" + BAR,
        "gpu_out_of_memory", [], "likely",
    ),
    "a torn traceback behind an echo may be one more echo": (
        CLOSED.format(3) + TRACE.replace("Trace", "[rank2]: Trace").replace("  File", "[rank2]:   File"),
        "remote_exit", [], "unknown",
    ),
    "before it, it is the first": (
        TRACE.replace("Trace", "[rank2]: Trace").replace("  File", "[rank2]:   File") + CLOSED.format(3),
        "exception", [2], "likely",
    ),
    "tasks that Slurm ends together are no culprit": (ABORT, "mpi_abort", [0], "likely"),
    "of a summary without its header the last process was the first": (
        summary((1, -11), (0, 1)).rpartition("[0]:\n")[2], "segmentation_fault", [1], "likely"
    ),
    "a connection has two ends": (
        "n1:9:8 [4] ib.c:16 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<44206> with status=12 opcode=129\n",
        "link_error", [], "one of",
    ),
    "Horovod names the ranks that lack a tensor": (
        "".join(f"[1,0]<stderr>:[W operations.cc:588] Broadcast_{x} [missing ranks: {x}, 3]\n" for x in (1, 2)),
        "collective_timeout", [3], "sure",
    ),
    "Horovod lists what each rank lacks, and who lacks all of it is absent": (
        STALLED.format("1: [grad.a, grad.b ...]\n[0] 2: [grad.a]"), "collective_timeout", [1], "sure"
    ),
    "of a list that names some ranks first and others later, nobody is absent in both": (
        STALLED.format("1: [grad.a]") + STALLED.format("2: [grad.b]"), "collective_timeout", [], "unknown"
    ),
    "the only cause that a whole log tells": (
        "step 1\n[rank2]: ValueError: bad record\n", "exception", [2], "sure"
    ),
    "a cause behind the echo of another process may follow from a third one": (
        "step 1\n" + CLOSED.format(3) + "[rank2]: ValueError: bad record\n", "exception", [2], "likely"
    ),
    "a summary whose last process is torn still names the first; the launcher killed the others": (
        summary((1, 1), (0, -9)).rpartition("  exitcode")[0], "first_failed", [1], "likely"
    ),
    "spawn names the process that was killed": (
        "step 1\n" + TRACE
        + "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL\n",
        "killed", [0], "likely",
    ),
    "an agent that is told to end did not fail": (
        "WARNING: api:Received 15 death signal, shutting down workers\n"
        + TRACE.replace("a.py", "/torch/distributed/run.py"),
        "terminated", [], "unknown",
    ),
    "an assertion of C++ is the cause, its launcher's exception is not": (
        "step 1\npython: /env/aio/handle.cpp:159: void stop(): Assertion `0 == _pending' failed.\n"
        + TRACE + "subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 1.\n",
        "assertion", [], "sure",
    ),
    "faults of several GPUs at once": (
        "".join(f"2026-08-31T17:43:36.{k}Z stderr F Memory access fault by GPU node-{k} on 0x7f.\n" for k in (4, 6)),
        "gpu_error", [], "one of",
    ),
    "an exception that a replica raised is one with where it was raised": (
        "step 1\n" + TRACE + "torch.OutOfMemoryError: Caught OutOfMemoryError in replica 0 on device 0.\nOriginal "
        + TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has 63 GiB.\n",
        "gpu_out_of_memory", [], "sure",
    ),
    "a job that a signal cancelled": (
        "step 1\nslurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE to SIGNAL Terminated ***\n",
        "terminated", [], "unknown",
    ),
    "a first line that is printed over and over is no start of a program": (
        "GPU core dump failed\nGPU core dump failed\n"
        + "GPU core dump failed\n".join(f"Memory access fault by GPU node-{k} on address 0x1.\n" for k in (9, 6)),
        "gpu_error", [], "one of",
    ),
    "mpirun names the process after it says that one exited": (
        "mpirun detected that one or more processes exited with non-zero status\n\n  Process name: [[29973,1],0]\n",
        "child_failed", [0], "likely",
    ),
    "a worker of a data loader without memory": (
        "step 1\nRuntimeError: Caught RuntimeError in DataLoader worker process 0.\nOriginal " + TRACE
        + "RuntimeError: [enforce fail at CPUAllocator.cpp:64] . DefaultCPUAllocator: can't allocate memory: 4.\n",
        "host_out_of_memory", [], "sure",
    ),
    "an exception of a collective may be what another process left": (
        TRACE.replace("a.py", "/env/torch/distributed/distributed_c10d.py").replace("in f", "in all_reduce")
        .replace("Trace", "[rank1]: Trace").replace("  File", "[rank1]:   File")
        + "[rank1]: RuntimeError: the backend gives up\n",
        "exception", [], "unknown",
    ),
    "of a shell that is told to end, the torn traceback behind it is no cause": (
        "".join(f"2023-01-16 20:44:18 172.16.80.8 [{k}] Terminated\n" for k in range(4)) + TRACE,
        "terminated", [], "unknown",
    ),
    "a torn traceback of a launcher tells that a process failed": (
        "Process 0 exit with status code 1.\n" + TRACE.replace("a.py", "/env/horovod/runner/launch.py"),
        "child_failed", [0], "likely",
    ),
    "a code above 128 tells the signal": (
        "".join(f"1304 || Process {k} exit with status code 139.\n" for k in (3, 1)),
        "segmentation_fault", [1, 3], "one of",
    ),
    "in an excerpt, a rank that prints nothing may have been left out": (
        "".join(map(WATCHDOG.format, (0, 2, 3, 4))), "collective_timeout", [], "unknown"
    ),
    "in a whole log, it has printed nothing": (
        "step 1\n" + "".join(map(WATCHDOG.format, (0, 2, 3, 4))), "collective_timeout", [1], "likely"
    ),
    "a collective of TensorFlow that timed out, before the abort": (
        "E executor.cc:249] BaseCollectiveExecutor::StartAbort DEADLINE_EXCEEDED: x\nFatal Python error: Aborted\n",
        "collective_timeout", [], "unknown",
    ),
    "a container that is killed when another has exited": (
        "".join(f"1304 || INFO: container failed with non-zero exit code:  (exit code {k})\n" for k in (1, 137)),
        "child_failed", [], "unknown",
    ),
    "a program that caught an exhausted device, and was killed when its host was exhausted": (
        "step 1\n" + TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nnext trial\n"
        + "run.sh: line 22: 1687899 Killed                  python a.py\n"
        + "slurmstepd: error: Detected 1 oom_kill event in StepId=2.batch.\n",
        "host_out_of_memory", [], "sure",
    ),
    "an executor of vLLM that fails with its worker": (
        "start\n(Engine pid=4) Worker proc VllmWorker-0 died unexpectedly, shutting down executor.\n"
        + "".join(f"(Engine pid=4) {line}\n" for line in (TRACE + "RuntimeError: Executor failed.").split("\n")),
        "actor_died", [0], "likely",
    ),
    "an exception of a process that has lost another one": (
        "step 1\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting.\n"
        + TRACE + "ValueError: bad shape\n",
        "exception", [], "likely",
    ),
    "several exceptions may be of several starts": (
        "step 1\n" + TRACE + "ValueError: bad shape\nstep 1\n" + TRACE + "KeyError: 'loss'\n", "exception", [], "likely"
    ),
    "a server that a signal stops": (
        "EngineCore: trigger received signal=SIGTERM\nvllm.v1.engine.exceptions.EngineDeadError: an issue.\n",
        "terminated", [], "unknown",
    ),
    "panics of threads that a program of Rust outlived, before another start": (
        "start\n" + "thread 'main' panicked at src/a.rs:2:1:\n[DEBUG] no column\n" * 3 + "line\n" * 600
        + 'Error: Error("invalid type: null, expected f64", line: 33, column: 10)\n',
        "exception", [], "sure",
    ),
    "exceptions that are raised while an interrupted program ends": (
        "start\n" + TRACE + "KeyboardInterrupt\n\nDuring handling of the above exception, another exception occurred:\n"
        + "\n" + TRACE + "AssertionError\n" + TRACE + "FileNotFoundError: [Errno 2] No such file or directory: '/x'\n",
        "interrupted", [], "sure",
    ),
    "a container that could not be started": (
        "start\nslurmstepd: error: pyxis: couldn't start container\nsrun: error: n1: task 0: Exited with exit code 1\n",
        "launch_failed", [], "sure",
    ),
    "an exception that Ray wraps has a text": (
        TRACE + "ray.exceptions.RayTaskError(DistBackendError): ray::Trainer.f\n", "exception", [], "likely"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_what_came_first(tmp_path: Path, name: str) -> None:
    text, kind, ranks, certainty = JUDGED[name]
    found = perflog.diagnose(read(tmp_path, text))
    assert (found.kind, found.certainty) == (kind, certainty)
    assert [each.rank for each in found.culprits if each.rank is not None] == ranks


def test_the_notices_of_ranks_that_a_prefix_names_are_apart(tmp_path: Path) -> None:
    line = "[2025-01-06 02:58:44 TP{}] Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.1\n"
    log = read(tmp_path, "".join(map(line.format, (0, 5, 7, 0))))
    assert log.table("failures")[["rank", "count"]].values.tolist() == [[0, 2], [5, 1], [7, 1]]


def test_a_request_that_a_server_refuses_is_no_failure(tmp_path: Path) -> None:
    lines = [
        "ERROR 08-18 19:58:43 [serving_chat.py:203] Error in preprocessing prompt inputs",
        "ERROR 08-18 19:58:43 [serving_chat.py:203] Traceback (most recent call last):",
        'ERROR 08-18 19:58:43 [serving_chat.py:203]   File "serving_engine.py", line 626, in _validate_input',
        "ERROR 08-18 19:58:43 [serving_chat.py:203] ValueError: This model's maximum context length is 2048 tokens.",
        'INFO:     127.0.0.1:59064 - "POST /v1/chat/completions HTTP/1.1" {}',
    ]
    refused = "\n".join(lines).format("400 Bad Request")
    steps = "".join(STEP.format(step) + "\n" for step in range(1, 9))
    log = read(tmp_path, f"{steps}{refused}\n{refused}\n")
    assert not len(log.table("failures"))
    log = read(tmp_path, "\n".join(lines).format("500 Internal Server Error") + "\n")
    assert log.table("failures")["kind"].tolist() == ["exception"]


def test_code_that_a_program_evaluates_is_no_new_start(tmp_path: Path) -> None:
    wrong = f"{TRACE}SyntaxError: invalid syntax (<string>, line 1)\n"
    text = f"{TRACE}RuntimeError: the reward model is gone\n{wrong}{TRACE}ValueError: no reward\n"
    assert perflog.diagnose(read(tmp_path, text)).verdict.startswith("Ended by RuntimeError")


def test_a_line_of_a_launcher_glued_to_its_traceback_names_the_local_rank(tmp_path: Path) -> None:
    parts = [f"WARNING:torch.elastic.api:Sending process {pid} closing signal SIGTERM" for pid in (7, 8)]
    parts.append("ERROR:torch.elastic.api:failed (exitcode: -9) local_rank: 4 (pid: 9) of binary: /bin/python")
    text = (" " * 30).join([*parts, TRACE.partition("\n")[0], '  File "torchrun", line 33, in <module>']) + "\n"
    found = perflog.diagnose(read(tmp_path, text)).as_json()
    assert found["kind"] == "killed"
    assert [each["local_rank"] for each in found["culprits"]] == [4]


def cancelled(job: int) -> str:
    return f"slurmstepd: error: *** JOB {job} ON dgx-06 CANCELLED AT 2025-08-21T02:53:05 ***\n"


APPENDED = {
    "jobs of a scheduler": (
        TRACE + "OSError: no file\n" + cancelled(41) + TRACE + "ValueError: split\n" + cancelled(42) + cancelled(43),
        "terminated", "a signal to end",
    ),
    "launches of a launcher": (
        TRACE + "ImportError: no name\n" + summary((0, 1)) + TRACE + "KeyError: 'loss'\n"
        + summary((0, 1)).replace("pid: ", "pid: 9"),
        "exception", "KeyError: 'loss'",
    ),
    "starts of a program": (
        "Loaded module: python3/3.7.5\n" + TRACE + "ValueError: too many values\n" + "Loaded module: python3/3.7.5\n"
        + TRACE + "TypeError: not str\n" + "Loaded module: python3/3.7.5\n" + TRACE + "ValueError: no format\n",
        "exception", "ValueError: no format",
    ),
    "source code that cannot be read": (
        TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 372.00 MiB. GPU 0 has 7.69 GiB.\n"
        + '  File "train.py", line 232\n    optim="adam"\n    ^\nSyntaxError: invalid syntax\n',
        "exception", "SyntaxError: invalid syntax",
    ),
}  # fmt: skip


LAUNCHED = (
    "[INFO] [launch.py:315:sigkill_handler] Killing subprocess 3353707\n[ERROR] [launch.py:321:sigkill_handler] "
    "['/x/bin/python', '-u', 'train.py', '--local_rank={}', '--bf16'] exits with return code = {}\n"
)


@pytest.mark.parametrize(
    ("local_rank", "code", "accused"),
    [(0, -9, [{"local_rank": 0}]), (4, -9, []), (0, 1, [{"local_rank": 0}]), (4, 1, [])],
)
def test_the_command_that_deepspeed_prints_is_that_of_the_last_process(
    tmp_path: Path, local_rank: int, code: int, accused: list[dict[str, int]]
) -> None:
    """Whichever process failed: its local rank is known if it is the only one."""
    found = perflog.diagnose(read(tmp_path, LAUNCHED.format(local_rank, code))).as_json()["culprits"]
    assert [{"local_rank": each["local_rank"]} for each in found] == accused


def test_the_agent_of_a_gpu_is_no_index(tmp_path: Path) -> None:
    text = "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang\n" * 3
    (found,) = perflog.diagnose(read(tmp_path, text)).as_json()["culprits"]
    assert ("gpu" in found, found["device"]) == (False, "node-9")


def test_a_traceback_that_is_cut_off_is_told_as_that(tmp_path: Path) -> None:
    found = perflog.diagnose(read(tmp_path, TRACE))
    assert found.verdict == "Ended by an exception with a lost message, line 1"
    assert found.certainty == "likely"


@pytest.mark.parametrize("name", APPENDED)
def test_of_programs_whose_output_was_appended_the_last_counts(tmp_path: Path, name: str) -> None:
    text, kind, told_text = APPENDED[name]
    found = perflog.diagnose(read(tmp_path, text))
    assert found.kind == kind
    assert found.verdict.startswith(f"Ended by {told_text}")


def test_a_module_with_a_digit_is_no_node(tmp_path: Path) -> None:
    found = perflog.diagnose(read(tmp_path, TRACE + "sqlite3.OperationalError: table t has 11 columns\n"))
    assert found.verdict.startswith("Ended by sqlite3.OperationalError: table t has 11 columns")


def test_what_is_printed_for_long_behind_a_failure_is_of_a_later_job(tmp_path: Path) -> None:
    output = "".join(f"task {k // 7} of the benchmark takes {k} us\n" for k in range(600))
    found = perflog.diagnose(read(tmp_path, cancelled(41) + output + "Success rate: 18.0%\n" + STEP.format(1) + "\n"))
    assert found.verdict.startswith("The job recovered")
    found = perflog.diagnose(read(tmp_path, TRACE + "ValueError: no norm\n" + output + cancelled(42)))
    assert found.verdict.startswith("Ended by a signal to end")
    ranks = TRACE.replace("Trace", "[rank2]: Trace").replace("  File", "[rank2]:   File") + "[rank2]: ValueError: 5\n"
    assert perflog.diagnose(read(tmp_path, ranks + output + cancelled(42))).verdict.startswith("Ended by ValueError")


DONE = "".join(
    f" iteration {step:8d}/      40 | consumed samples: {step:12d} | elapsed time per iteration (ms): 2000.0 | "
    f"global batch size:   128 | lm loss: {8 - step / 100:.6E} |\n"
    for step in range(1, 41)
)
IGNORED = "Exception ignored in: <function Loader.__del__ at 0x7f>\n"


def test_an_exception_that_python_ignores_ends_nothing(tmp_path: Path) -> None:
    text = DONE + IGNORED + TRACE + "AssertionError: can only test a child process\n"
    assert perflog.diagnose(read(tmp_path, text)).kind is None
    text = DONE + IGNORED + "BrokenPipeError: [Errno 32] Broken pipe\n" + TRACE + "KeyError: 'loss'\n"
    assert perflog.diagnose(read(tmp_path, text)).kind == "exception"


def test_what_fails_behind_the_last_step_ended_no_training(tmp_path: Path) -> None:
    found = perflog.diagnose(read(tmp_path, DONE + "terminate called without an active exception\n"))
    assert found.verdict == "All 40 steps were done; after them it ended by an abort of the process, line 41"


def test_a_task_that_exits_before_srun_ends_the_others_was_the_first(tmp_path: Path) -> None:
    text = (
        "srun: error: node017: task 5: Exited with exit code 1\nsrun: Terminating StepId=81234.0\n"
        "slurmstepd: error: *** STEP 81234.0 ON node012 CANCELLED AT 2026-03-01T12:20:31 ***\n"
        "srun: error: node012: tasks 0-3: Terminated\nsrun: error: node017: tasks 4,6-7: Terminated\n"
    )
    found = perflog.diagnose(read(tmp_path, text))
    assert [(each.task, each.node) for each in found.culprits] == [(5, "node017")]
    assert (found.kind, found.certainty) == ("task_exit", "likely")


def test_an_exception_in_a_process_of_ray_ends_no_job_that_prints_on(tmp_path: Path) -> None:
    label = "(RewardWorker pid=141546) "
    caught = "".join(f"{label}{line}\n" for line in ("ERROR:root:" + TRACE + "TypeError: no tag").split("\n"))
    loaded = "".join(f"(RewardWorker pid={14 + k}) the tokenizer is loaded\n" for k in range(12))
    assert perflog.diagnose(read(tmp_path, f"start\n{caught}{loaded}")).kind is None
    driver = TRACE + "ray.exceptions.RayTaskError(TypeError): ray::main()\nTypeError: no tag\n"
    assert perflog.diagnose(read(tmp_path, f"start\n{caught}{loaded}{driver}")).kind == "exception"


def test_no_program_goes_on_after_arguments_that_it_refuses(tmp_path: Path) -> None:
    refused = "train.py: error: unrecognized arguments: --bogus 3", "python: can't open file 'a.py': [Errno 2] x"
    for k, line in enumerate(refused):
        text = f"start\n{line}\n" + "a line of the epilog\n" * 20
        assert perflog.diagnose(read(tmp_path, text, f"{k}.log")).kind == ("arguments", "missing_file")[k]


def test_a_start_without_steps_after_an_exhausted_device_is_what_became_of_the_job(tmp_path: Path) -> None:
    text = f"start\n{TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert perflog.diagnose(read(tmp_path, text + "the sample is written\n" * 99)).kind == "gpu_out_of_memory"
    assert perflog.diagnose(read(tmp_path, text + "the sample is written\n" * 600, "b.log")).kind is None


def test_of_the_tasks_that_srun_ended_one_is_missing(tmp_path: Path) -> None:
    text = (
        "slurmstepd: error: *** STEP 522.0 ON n2 CANCELLED AT 2026-04-29T23:36:37 DUE TO TASK FAILURE ***\n"
        "srun: error: n2: tasks 0-57,59-63: Terminated\nsrun: Force Terminated StepId=522.0\n"
    )
    found = perflog.diagnose(read(tmp_path, text))
    assert (found.kind, found.certainty, found.culprits) == ("task_exit", "unknown", [])
    assert "only task 58 is not among them" in found.why


def test_a_torn_list_of_tasks_is_not_counted_out(tmp_path: Path) -> None:
    found = perflog.diagnose(read(tmp_path, "srun: error: n2: tasks 0-999999999999999: Terminated\n"))
    assert (found.kind, list(found.culprits)) == ("task_exit", [])


def test_the_node_of_an_actor_stands_behind_its_error(tmp_path: Path) -> None:
    text = (
        "step 1\n" + TRACE + "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: Trainer\n\tpid: 5226\n\tip: 10.7.34.138\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n"
    )
    log = read(tmp_path, text)
    assert log.table("failures")[["line", "last_line", "node"]].values.tolist() == [[2, 8, "10.7.34.138"]]
    assert [each["node"] for each in culprits(log)] == ["10.7.34.138"]


@pytest.mark.parametrize("last", ["Training completed. Do not forget to share your model", "Finished training in 12 s"])
def test_a_failure_that_was_retried_ended_no_training_that_ended_well(tmp_path: Path, last: str) -> None:
    failed = "args\nConnectionError: HTTPSConnectionPool failed\nretrying\n"
    assert perflog.diagnose(read(tmp_path, failed + last + "\n")).kind is None
    assert perflog.diagnose(read(tmp_path, failed + "the training is not finished\n")).kind == "exception"
    assert perflog.diagnose(read(tmp_path, failed.replace("Conn", "[rank1]: Conn") + last + "\n")).kind == "exception"


def test_a_new_start_that_ends_well_is_what_became_of_the_job(tmp_path: Path) -> None:
    """A launcher ended all processes, or there is only one: what is printed behind is of a new start."""
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 9 GiB\n"
    )
    done = "args\nTraining completed. Do not forget to share your model\n"
    assert perflog.diagnose(read(tmp_path, "args\n" + TRACE + oom + done)).kind is None
    assert perflog.diagnose(read(tmp_path, "args\n" + TRACE + oom)).kind == "gpu_out_of_memory"
    of_rank = f"args\n[rank1]: {TRACE}[rank1]: {oom}".replace("\n ", "\n[rank1]: ")
    assert perflog.diagnose(read(tmp_path, of_rank + done)).kind == "gpu_out_of_memory"
    assert perflog.diagnose(read(tmp_path, of_rank + summary((1, 1)) + done)).kind is None


def test_what_only_a_launcher_tells_has_its_exit_code(tmp_path: Path) -> None:
    text = "x\n1.708e+09\tDEBUG\tevents\tPod: kubeflow.simple-worker-0 exited with code 1\n"
    found = perflog.diagnose(read(tmp_path, text))
    assert found.verdict == (
        "Ended by a process that its launcher saw fail (exit code 1) on kubeflow.simple-worker-0, line 2"
    )


def test_the_exception_in_a_task_of_ray_is_told_in_place_of_its_wrapper(tmp_path: Path) -> None:
    text = (
        "x\nray.exceptions.RayTaskError: ray::reward() (pid=25348, ip=0.0.0.0)\n"
        '  File "remote_rm_utils.py", line 45, in remote_rm_fn_ray\n    return remote_rm_fn(api_url, queries)\n'
        "Exception: Request error for 5 times, returning None.\nJob 'raysubmit_RF3' failed\n"
    )
    rows = read(tmp_path, text).table("failures")
    assert rows[["line", "last_line", "message"]].values.tolist() == [
        [2, 5, "Exception: Request error for 5 times, returning None."]
    ]


def test_of_two_processes_that_tell_the_same_an_unnamed_one_may_be_the_first(tmp_path: Path) -> None:
    nccl = "NCCL WARN Cuda failure 700 'an illegal memory access was encountered'\n"
    text = (
        f"x\n{TRACE}RuntimeError: CUDA error: an illegal memory access was encountered\nn1:1:2 [0] enqueue.cc:1 {nccl}"
    )
    found = perflog.diagnose(read(tmp_path, text))
    assert (found.kind, found.certainty, list(found.culprits)) == ("gpu_error", "one of", [])


def test_a_restart_of_the_agent_in_the_first_line(tmp_path: Path) -> None:
    """The line begins an attempt, and is a record of a common format."""
    line = (
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 3/3 attempts left; will restart"
    )
    assert perflog.diagnose(read(tmp_path, f"{line} worker group\n")).kind is None


def test_ranks_that_refuse_their_arguments_are_no_starts_one_after_another(tmp_path: Path) -> None:
    usage = "usage: train.py [-h] [--cfg_file CFG_FILE] [--batch_size BATCH_SIZE] [--local_rank LOCAL_RANK]\n"
    usage += "                [--max_ckpt_save_num MAX_CKPT_SAVE_NUM] [--merge_all_iters_to_one_epoch]\n" * 4
    text = "".join(f"{usage}train.py: error: unrecognized arguments: --local-rank={rank}\n" for rank in (1, 5, 0))
    found = perflog.diagnose(read(tmp_path, text))
    assert (found.kind, found.certainty, found.earlier) == ("arguments", "one of", [])
    assert [each.rank for each in found.culprits] == [0, 1, 5]


def test_weights_of_another_shape_than_the_model_are_a_checkpoint_that_cannot_be_read(tmp_path: Path) -> None:
    sizes = "torch.Size([2816, 1024]) from checkpoint, the shape in current model is torch.Size([11008, 4096])."
    mismatch = (
        f"[rank1]:        size mismatch for model.layers.1.mlp.up_proj.weight: copying a param with shape {sizes}\n"
    )
    found = perflog.diagnose(read(tmp_path, mismatch * 3))
    assert (found.kind, [each.rank for each in found.culprits]) == ("checkpoint", [1])
    head = "[rank1]: Traceback (most recent call last):\n[rank1]: RuntimeError: Error(s) in loading state_dict for A:\n"
    found = perflog.diagnose(read(tmp_path, f"start\n{head}{mismatch * 3}", "whole.log"))
    assert (found.kind, [each.rank for each in found.culprits]) == ("checkpoint", [1])
    assert "Error(s) in loading state_dict" in found.evidence[0]


def test_a_store_that_no_process_reaches_is_no_cause_of_its_own(tmp_path: Path) -> None:
    text = (
        "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to 10.0.0.1:1234\n"
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: "
        "The connection to the C10d store has failed. See inner exception for details.\n"
    )
    found = perflog.diagnose(read(tmp_path, text))
    assert (found.kind, found.certainty, found.culprits) == ("rendezvous_timeout", "unknown", [])


def test_ucx_names_the_node_of_a_process_that_crashed(tmp_path: Path) -> None:
    text = "gpu-3:4121:4190 [1] NCCL INFO Connected all trees\n"
    text += "[gpu-7:5283 :0:5704] Caught signal 7 (Bus error: nonexistent physical address)\n"
    found = perflog.diagnose(read(tmp_path, text))
    assert (found.kind, [each.node for each in found.culprits]) == ("crash", ["gpu-7"])
