"""Peak rates of accelerators: dense TFLOP/s by model and precision, TB/s of the memory, each row with its source.

There is no default model: a wrong peak makes a wrong MFU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from perflog.errors import UsageError, did_you_mean
from perflog.lazy_patterns import lazy_pattern

PRECISIONS: dict[str, tuple[str, ...]] = {
    "fp32": ("fp32", "float32", "float", "single"),
    "tf32": ("tf32", "tensorfloat32"),
    "bf16": ("bf16", "bfloat16"),
    "fp16": ("fp16", "float16", "half"),
    "fp8": ("fp8", "float8", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2"),
}
"""Precisions of the table, with the names that logs use for them. fp32 is plain fp32 arithmetic, not TF32."""


class GpuModel(Struct, frozen=True):
    """A model of accelerator: its dense peaks in TFLOP/s by precision, the bandwidth of its memory in TB/s, the source.

    `pattern` is searched in a device name in lower case with blanks between words: "nvidia a100 sxm4 80gb".
    """

    name: str
    pattern: str
    peaks_tflops: Mapping[str, float]
    bandwidth_tbs: float | None
    source: str

    def peak_tflops(self, dtype: str) -> float:
        """Return the dense peak for a dtype, in TFLOP/s. Raises UsageError if the table has none."""
        key = precision(dtype)
        if key is None or key not in self.peaks_tflops:
            names = [name for known in self.peaks_tflops for name in PRECISIONS[known]]
            help = did_you_mean(dtype.lower(), names, f"there are: {', '.join(self.peaks_tflops)}")
            raise UsageError(f"no peak of {self.name} is known for `{dtype}`", help=help)
        return self.peaks_tflops[key]


_NV, _AMD = "NVIDIA data sheet", "AMD data sheet"
_HALF = f"{_NV}, half of its value with sparsity"  # for some models NVIDIA gives no other value

# Dense TFLOP/s, accumulated in fp32, and TB/s of the memory. None: the model has no such arithmetic, or no value is
# certain: the bandwidth of an A100 depends on its memory.
# name         pattern                    fp32   tf32    bf16    fp16    fp8   TB/s  source
_TABLE: tuple[tuple[str | float | None, ...], ...] = (
    ("V100 SXM",   r"\bv100 ?(sxm|dgxs)",     15.7,   None,   None,    125,   None,   0.9, _NV),
    ("V100 PCIe",  r"\bv100 ?pci",              14,   None,   None,    112,   None,   0.9, _NV),
    ("V100S PCIe", r"\bv100s\b",              16.4,   None,   None,    130,   None, 1.134, _NV),
    ("T4",         r"\bt4\b",                  8.1,   None,   None,     65,   None,  0.32, _NV),
    ("A100",       r"\ba100(sxm|pci|\b)",     19.5,    156,    312,    312,   None,  None, _NV),
    ("A40",        r"\ba40\b",                37.4,   74.8,  149.7,  149.7,   None, 0.696, _NV),
    ("A30",        r"\ba30\b",                10.3,     82,    165,    165,   None, 0.933, _NV),
    ("A10",        r"\ba10\b",                31.2,   62.5,    125,    125,   None,   0.6, _NV),
    ("RTX A6000",  r"\ba6000\b",              38.7,   77.4, 154.85, 154.85,   None, 0.768, f"{_NV}; nsys-ai: 310"),
    ("RTX 3090",   r"3090\b(?! ti)",          35.6,   35.6,     71,     71,   None, 0.936, "NVIDIA GA102 whitepaper"),
    ("RTX 4090",   r"4090\b(?! (d|laptop)\b)",82.6,   82.6,  165.2,  165.2,  330.3, 1.008, "NVIDIA Ada whitepaper"),
    ("L4",         r"\bl4\b",                 30.3,     60,    121,    121,  242.5,   0.3, _HALF),
    ("L40",        r"\bl40\b",                90.5,   90.5, 181.05, 181.05,    362, 0.864, _NV),
    ("L40S",       r"\bl40s\b",               91.6,    183, 362.05, 362.05,    733, 0.864, _NV),
    ("H100 SXM",   r"\bh100 ?(sxm|80gb hbm3)",66.9,  494.7,  989.4,  989.4, 1978.9,  3.35, "NVIDIA H100 whitepaper"),
    ("H100 PCIe",  r"\bh100 ?(80gb )?pci",    51.2,    378,    756,    756,   1513,     2, "NVIDIA H100 whitepaper"),
    ("H100 NVL",   r"\bh100 ?(94gb )?nvl",      60,  417.5,  835.5,  835.5, 1670.5,   3.9, _HALF),
    ("H200 SXM",   r"\bh200(sxm|\b(?! nvl))", 66.9,  494.7,  989.4,  989.4, 1978.9,   4.8, _HALF),
    ("H200 NVL",   r"\bh200 ?nvl",              60,  417.5,  835.5,  835.5, 1670.5,   4.8, _HALF),
    ("H20",        r"\bh20\b",                None,   None,    148,    148,    296,     4, "press: no data sheet"),
    ("B200",       r"\bb200\b",               None,   1100,   2250,   2250,   4500,     8, _HALF),
    ("GB200",      r"\bgb200\b",                80,   1250,   2500,   2500,   5000,     8, f"{_HALF}; nsys-ai: 2250"),
    ("MI250X GCD", r"\bmi250x\b",             None,   None,  191.5,  191.5,   None,   1.6, f"{_AMD}, of one die"),
    ("MI300X",     r"\bmi300x\b",            163.4,   None, 1307.4, 1307.4, 2614.9,   5.3, f"{_AMD}; torchtitan: 1300"),
    ("MI325X",     r"\bmi325x\b",            163.4,   None, 1307.4, 1307.4, 2614.9,     6, f"{_AMD}; torchtitan: 1300"),
    ("MI355X",     r"\bmi355x\b",             None,   None,   2500,   2500,   5000,     8, "torchtitan, rounded"),
)  # fmt: skip


def _gpu_model(name: Any, pattern: Any, *figures: Any) -> GpuModel:
    *peaks, bandwidth, source = figures
    known = {key: tflops for key, tflops in zip(PRECISIONS, peaks, strict=True) if tflops is not None}
    return GpuModel(name, pattern, known, bandwidth, source)


_BY_MEMORY = (
    (r"\ba100.*\b40gb", 1.555, _NV),
    (r"\ba100 ?sxm.*\b80gb", 2.039, _NV),
    (r"\ba100 80gb pci|\ba100 ?pci.*\b80gb", 1.935, _NV),
)
"""Bandwidths in TB/s that depend on the size of the memory: a pattern as in `GpuModel`, and the source."""


GPU_MODELS: tuple[GpuModel, ...] = tuple(_gpu_model(*row) for row in _TABLE)
"""All models of the table. Where published tables disagree, the source states it."""


def fastest_tflops(precision: str) -> float:
    """Return the highest peak of all models of the table in TFLOP/s; fp32 may be computed as TF32."""
    keys = ("fp32", "tf32") if precision == "fp32" else (precision,)
    return max(peak for model in GPU_MODELS for key, peak in model.peaks_tflops.items() if key in keys)


def gpu_model(name: str) -> GpuModel:
    """Return the model of a name, as the table writes it or as drivers print it.

    Raises UsageError with the nearest names for an unknown name, and for a name of several models: `H100` alone does
    not separate SXM, PCIe and NVL.
    """
    plain = _plain(name)
    matches = [model for model in GPU_MODELS if re.search(model.pattern, plain)]
    if len(matches) == 1:
        return matches[0]
    names = {model.name.lower(): model.name for model in GPU_MODELS}
    several = [model.name for model in matches] or [n for key, n in names.items() if f"{plain} " in f"{key} "]
    if plain and len(several) > 1:
        raise UsageError(f"`{name}` can be several devices", help=f"name one of them: {', '.join(several)}")
    close = [names[key] for key in get_close_matches(plain, names, 3, 0.5)]
    help = f"did you mean {', '.join(f'`{n}`' for n in close)}?" if close else f"there are: {', '.join(names.values())}"
    raise UsageError(
        f"no peak of `{name}` is known",
        help=f"{help}\nor give the peak itself: `--peak-tflops`, in Python `peak_tflops`",
    )


_VENDORS = frozenset(("nvidia", "tesla", "amd", "instinct", "radeon", "geforce", "intel", "r", "gpu", "gpus", "device"))
_ANY_GPU = lazy_pattern(r"(cuda|gpu|hip|rocm|xpu)(:[0-9]+)?")
"""Devices that programs name without their model."""


def are_other_devices(one: str, other: str) -> bool:
    """Return whether two names are of different devices; a name may be less specific than the other.

    Example:
        >>> are_other_devices("A100 SXM", "Tesla V100-SXM2"), are_other_devices("H100", "NVIDIA H100 NVL")
        (True, False)
    """
    names = [frozenset(() if _ANY_GPU.fullmatch(n.lower()) else _plain(n).split()) - _VENDORS for n in (one, other)]
    if ("cpu" in names[0]) != ("cpu" in names[1]):
        return True
    return not (names[0] <= names[1] or names[1] <= names[0])


def bandwidth_tbs(*names: str | None) -> float | None:
    """Return the bandwidth of a GPU's memory in TB/s, from a known name and others that are more specific.

    Example:
        >>> bandwidth_tbs("H100 SXM"), bandwidth_tbs("A100"), bandwidth_tbs("A100", "NVIDIA A100-SXM4-80GB")
        (3.35, None, 2.039)

    Raises UsageError for a first name that is unknown. Other names count if they are of the same model.
    """
    model = gpu_model(names[0] or "")
    for name in filter(None, names):
        for pattern, tbs, _ in _BY_MEMORY:
            if re.search(pattern, _plain(name)) and re.search(model.pattern, _plain(name)):
                return tbs
    return model.bandwidth_tbs


def _plain(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


def precision(dtype: str) -> str | None:
    """Return the key of PRECISIONS for a dtype's name: bf16 for torch.bfloat16. None if the name is unknown."""
    plain = dtype.lower().removeprefix("torch.")
    return next((key for key, names in PRECISIONS.items() if plain in names), None)
