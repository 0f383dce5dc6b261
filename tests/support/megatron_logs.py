"""Short logs of Megatron with chosen settings and step times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_ITERATION = " iteration {:8d}/{:8d} | elapsed time per iteration (ms): {:.2f} | global batch size: {:5d} |\n"


def megatron_log(settings: Mapping[str, object], times_ms: Sequence[float]) -> str:
    """Return a log that prints these settings and, below them, these times of steps; without times the run failed."""
    known = {"global_batch_size": 8, "micro_batch_size": 1, "seq_length": 2048, **settings}
    names = "".join(f"  {name} {'.' * (47 - len(name))} {value}\n" for name, value in known.items())
    steps = (
        _ITERATION.format(step, len(times_ms), time, known["global_batch_size"])
        for step, time in enumerate(times_ms, 1)
    )
    return f"{'-' * 24} arguments {'-' * 24}\n{names}{'-' * 20} end of arguments {'-' * 21}\n{''.join(steps)}"
