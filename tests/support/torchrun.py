"""What torchrun prints when a process of a job fails."""

SUMMARY = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2024-05-01_12:00:02
  host      : node2
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 4202)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-05-01_12:00:01
  host      : node2
  rank      : 11 (local_rank: 3)
  exitcode  : -9 (pid: 4204)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4204
============================================================
"""
