"""Peaks of accelerators: dense FLOP/s by device and precision, each row with its source. There is no default device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from perflog.errors import UsageError, did_you_mean

PRECISIONS: dict[str, tuple[str, ...]] = {
    "fp32": ("fp32", "float32", "float", "single"),
    "tf32": ("tf32", "tensorfloat32"),
    "bf16": ("bf16", "bfloat16"),
    "fp16": ("fp16", "float16", "half"),
    "fp8": ("fp8", "float8", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2"),
}
"""Precisions of the table, and what logs call them. fp32 is plain fp32 arithmetic, not TF32."""


@dataclass(frozen=True)
class Device:
    """A device: what it is called, and its dense peaks in FLOP/s by precision, with their source.

    `pattern` is searched for in a name in lower case with blanks between words: "nvidia a100 sxm4 80gb".
    """

    name: str
    pattern: str
    peaks: Mapping[str, float]
    source: str

    def peak(self, dtype: str) -> float:
        """Dense peak for a dtype, in FLOP/s. Raises UsageError where the table has none."""
        found = precision(dtype)
        if found is None or found not in self.peaks:
            names = [n for key in self.peaks for n in PRECISIONS[key]]
            help = did_you_mean(dtype.lower(), names, f"there are: {', '.join(self.peaks)}")
            raise UsageError(f"no peak of {self.name} is known for `{dtype}`", help=help)
        return self.peaks[found]


_NV, _AMD = "NVIDIA data sheet", "AMD data sheet"
_HALF = f"{_NV}, half of its figure with sparsity"  # of some devices it gives no other

# Dense TFLOP/s, accumulated in fp32; None: no such arithmetic, or a figure not known for sure.
# name         pattern                         fp32   tf32    bf16    fp16    fp8    source
_TABLE: tuple[tuple[str | float | None, ...], ...] = (
    ("V100 SXM",   r"\bv100 ?(sxm|dgxs)",          15.7,   None,   None,    125,   None, _NV),
    ("V100 PCIe",  r"\bv100 ?pci",                   14,   None,   None,    112,   None, _NV),
    ("V100S PCIe", r"\bv100s\b",                   16.4,   None,   None,    130,   None, _NV),
    ("T4",         r"\bt4\b",                       8.1,   None,   None,     65,   None, _NV),
    ("A100",       r"\ba100(sxm|pci|\b)",          19.5,    156,    312,    312,   None, _NV),
    ("A40",        r"\ba40\b",                     37.4,   74.8,  149.7,  149.7,   None, _NV),
    ("A30",        r"\ba30\b",                     10.3,     82,    165,    165,   None, _NV),
    ("A10",        r"\ba10\b",                     31.2,   62.5,    125,    125,   None, _NV),
    ("RTX A6000",  r"\ba6000\b",                   38.7,   77.4, 154.85, 154.85,   None, f"{_NV}; nsys-ai: 310"),
    ("RTX 3090",   r"3090\b(?! ti)",               35.6,   35.6,     71,     71,   None, "NVIDIA GA102 whitepaper"),
    ("RTX 4090",   r"4090\b(?! (d|laptop)\b)",     82.6,   82.6,  165.2,  165.2,  330.3, "NVIDIA Ada whitepaper"),
    ("L4",         r"\bl4\b",                      30.3,     60,    121,    121,  242.5, _HALF),
    ("L40",        r"\bl40\b",                     90.5,   90.5, 181.05, 181.05,    362, _NV),
    ("L40S",       r"\bl40s\b",                    91.6,    183, 362.05, 362.05,    733, _NV),
    ("H100 SXM",   r"\bh100 ?(sxm|80gb hbm3)",     66.9,  494.7,  989.4,  989.4, 1978.9, "NVIDIA H100 whitepaper"),
    ("H100 PCIe",  r"\bh100 ?(80gb )?pci",         51.2,    378,    756,    756,   1513, "NVIDIA H100 whitepaper"),
    ("H100 NVL",   r"\bh100 ?(94gb )?nvl",           60,  417.5,  835.5,  835.5, 1670.5, _HALF),
    ("H200 SXM",   r"\bh200(sxm|\b(?! nvl))",      66.9,  494.7,  989.4,  989.4, 1978.9, _HALF),
    ("H200 NVL",   r"\bh200 ?nvl",                   60,  417.5,  835.5,  835.5, 1670.5, _HALF),
    ("H20",        r"\bh20\b",                     None,   None,    148,    148,    296, "press: no data sheet"),
    ("B200",       r"\bb200\b",                    None,   1100,   2250,   2250,   4500, _HALF),
    ("GB200",      r"\bgb200\b",                     80,   1250,   2500,   2500,   5000, f"{_HALF}; nsys-ai: 2250"),
    ("MI250X GCD", r"\bmi250x\b",                  None,   None,  191.5,  191.5,   None, f"{_AMD}, of one die"),
    ("MI300X",     r"\bmi300x\b",                 163.4,   None, 1307.4, 1307.4, 2614.9, f"{_AMD}; torchtitan: 1300"),
    ("MI325X",     r"\bmi325x\b",                 163.4,   None, 1307.4, 1307.4, 2614.9, f"{_AMD}; torchtitan: 1300"),
    ("MI355X",     r"\bmi355x\b",                  None,   None,   2500,   2500,   5000, "torchtitan, rounded"),
)  # fmt: skip


def _device(name: Any, pattern: Any, *rest: Any) -> Device:
    *figures, source = rest
    peaks = {key: tflops * 1e12 for key, tflops in zip(PRECISIONS, figures, strict=True) if tflops is not None}
    return Device(name, pattern, peaks, source)


DEVICES: tuple[Device, ...] = tuple(_device(*row) for row in _TABLE)
"""All devices. Where published tables disagree, the source says so."""


def device(name: str) -> Device:
    """The device of that name, as in the table or as drivers print it. Raises UsageError with the nearest names for one
    that is unknown, or that is several: `H100` alone does not tell SXM, PCIe and NVL apart.
    """
    plain = " ".join(re.findall(r"[a-z0-9]+", name.lower()))
    found = [row for row in DEVICES if re.search(row.pattern, plain)]
    if len(found) == 1:
        return found[0]
    names = {row.name.lower(): row.name for row in DEVICES}
    several = [row.name for row in found] or [n for key, n in names.items() if f"{plain} " in f"{key} "]
    if plain and len(several) > 1:
        raise UsageError(f"`{name}` can be several devices", help=f"name one of them: {', '.join(several)}")
    close = [names[key] for key in get_close_matches(plain, names, 3, 0.5)]
    help = f"did you mean {', '.join(f'`{n}`' for n in close)}?" if close else f"there are: {', '.join(names.values())}"
    raise UsageError(f"no peak of `{name}` is known", help=f"{help}\nor give the peak itself")


def precision(dtype: str) -> str | None:
    """The precision of PRECISIONS that a dtype's name means: torch.bfloat16 is bf16. None for an unknown one."""
    plain = dtype.lower().removeprefix("torch.")
    return next((key for key, names in PRECISIONS.items() if plain in names), None)
