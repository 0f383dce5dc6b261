"""Categories of GPU activities and API calls, derived from their names by a table of patterns.

Names of kernels are no interface: libraries rename them from release to release. Each pattern is a part of a name that
has lasted, on NVIDIA (cuBLAS, CUTLASS, cuDNN, NCCL) and on AMD (Tensile, Composable Kernel, MIOpen, RCCL). The first
pattern that matches decides, so special patterns come before general ones. A name without a match is `other`. The tests
check the table with names from real traces.

Work that only waits is known by its whole name alone: `waiting_kernels.toml` declares them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

OTHER = "other"

ALLOCATION = "allocation"
"""Category of calls that allocate or free memory."""

WAIT = "wait"
"""Category of device work that only waits: for an event, a semaphore, the host, other ranks."""

_WAITING = Path(__file__).with_name("waiting_kernels.toml")

_GPU = (  # category, pattern, source of such names or reason for the row's position
    ("synchronisation", r"^(Event|Stream|Context|Device) Sync|^Stream Wait Event$", "cuda_sync of kineto: no work"),
    ("memcpy", r"^\[CUDA memcpy|^Memcpy|^(MEMORY_)?COPY_?(HOST|DEVICE)", "nvprof, nsys; kineto; rocprof"),
    ("memcpy", r"__amd_rocclr_copy|^zeCommandListAppendMemoryCopy", "HIP copies by kernel; Level Zero"),
    ("memcpy", r"^dma_request$", "torch.profiler on MTIA: with direction and size"),
    ("memset", r"^\[CUDA memset|^Memset|__amd_rocclr_fill|^zeCommandListAppendMemoryFill", "the same tools"),
    ("elementwise", r"^triton_poi_", "Inductor names a kernel by its operators: the prefix shows its shape"),
    # ncclAllReduceRingLLKernel_sum_f32 (2.7 and older), ncclKernel_AllReduce_RING_LL_Sum_float (to 2.18),
    # ncclDevKernel_AllReduce_Sum_f32_RING_LL (since 2.19), ncclSymkDevKernel (2.27); RCCL keeps NCCL's names
    ("communication", r"^(void )?(nccl|rccl|oneccl|nvshmem|rocshmem|k?userbuffers)|ncclDev|nvshmemi", "libraries"),
    ("communication", r"\b(msccl|mscclpp|dpsk::ep|mori)|dlslime|^hcom_", "MSCCL kernels; MoE transfers; Ascend's HCCL"),
    # MoE dispatch and combine; also mangled: _ZN7deep_ep9intranode8dispatch
    ("communication", r"deep_?ep(?![a-z])|hybrid_ep|uccl_ep|pplx|a2a_(dispatch|combine)", "DeepEP, UCCL, pplx-kernels"),
    (
        "communication",
        r"(?<![a-z])(ep_?)?(dispatch|combine)_?(ll|intra_?node|inter_?node|send|recv)",
        "the same, by name",
    ),
    (
        "communication",
        r"cross_device_reduce|(one|two)_?shot|multimem|mnnvl|nvls|symm(etric)?_?mem|lamport|quickreduce",
        "vLLM, PyTorch's symmetric memory (CUDASymmetricMemoryOps.cu), TRT-LLM",
    ),
    (
        "communication",
        r"^(?!triton_).*(all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|collective-permute|moeA2A)",
        "named so; XLA writes them with hyphens",
    ),
    # before `masked` (indexing): the mask of dropout's backward pass, aten/src/ATen/native/cuda/Dropout.cu
    ("elementwise", r"masked_scale", "dropout: gradient * mask * scale"),
    # before `tensorop` (GEMM) and `^miopen`: MIOpenSubTensorOpWithCastTensorKernel.cpp, MIOpenSubTensorOpWithScalar.cpp
    ("elementwise", r"SubTensorOpWith", "MIOpen: casts, fills and scales parts of tensors"),
    ("interpolation", r"upsample|interpolat|bilinear|bicubic|grid_?sampl|resize_?(nearest|linear)", "UpSample*.cu"),
    (
        "pooling",
        r"pool(?!ed_embedding|alloc|_?mgr)(ing)?\d?d?(?![a-z])|_pool_|pooling|max_?unpool",
        "PyTorch, cuDNN, MIOpen",
    ),
    ("optimizer", r"adam|lamb_|_lamb|adagrad|adafactor|rmsprop|\bsgd|_sgd|lion_|multi_tensor_", "apex, PyTorch"),
    ("optimizer", r"global_norm|l2_?norm|grad_norm|clip_grad|^triton_for_", "gradient clipping; Inductor's foreach"),
    ("attention", r"flash(?!infer)|fmha|sdpa|attn|attention|paged_kv|mha_(fwd|bwd)|unfused_mha", "the libraries'"),
    ("attention", r"bwd_kernel_(dk_dv|dq)|(prefill|decode)_?with|\bmla_", "Triton's and FlashInfer's"),
    (
        "attention",
        r"qk_int\d?_?s?v_|_qk_int|sageattn|\bsage\d?_",
        "SageAttention, csrc/qattn/qk_int_sv_f16_cuda_sm80.cu",
    ),
    # csrc/fused/fused.cu of SageAttention, before `permut`, `mean` and `matmul`: they quantise the inputs of attention
    (
        "elementwise",
        r"MeanScaleKernel|SubMeanKernel|QuantInt8Kernel|quant_(query|key)_per|quant_per_(block|warp)",
        "same",
    ),
    ("loss", r"cross_?entropy|nll_?loss|mse_?loss|fused_classifier|logits_loss", "PyTorch, llm.c"),
    ("routing", r"topk_?gating", "before softmax, which is in the names"),
    ("softmax", r"soft_?max", "named so"),
    ("normalisation", r"(layer|rms|batch|group|instance)_?norm|normali[sz]ation|\bln_(fwd|bwd)", "named so"),
    ("normalisation", r"GammaBeta|\bbn_(fw|bw)|norm_(fwd|bwd)|RowwiseMoments", "parts of PyTorch's and cuDNN's"),
    ("convolution", r"conv(?!ert)|scudnn|(fprop|dgrad|wgrad)|winograd|igemm_(fwd|bwd|wrw)", "cuDNN; before GEMM"),
    ("convolution", r"gfx\d+_\w*nhwc|^miopen", "MIOpen"),
    ("reduction", r"backward_bias|bias_(grad|backward|reduce)", "before GEMM: matmul_backward_bias is a sum"),
    # fbgemm is a namespace of embedding kernels
    (
        "gemm",
        r"(?<!fb)gemm|gemv|cijk_|nvjet|mat_?mul|mul_mat|splitk|cublas|rocblas|hipblas",
        "BLAS, ggml; Tensile: Cijk",
    ),
    ("gemm", r"[hi]mma_|[sh]884|16816|wgmma|tensorop|wmma|\bbmm_|fused_moe_kernel", "matrix units in the name"),
    ("gemm", r"triton_(tem_)?\w*mm\b|triton_tem_\w*mm_|_mm_kernel|marlin|machete|dot_kernel", "Triton's; quantised"),
    ("embedding", r"embedding|encoder_(forward|backward)|w[tp]e_backward", "PyTorch, FBGEMM, llm.c"),
    ("routing", r"moe_|\bmoe::|expert|token_(dispatch|combine|permut)", "mixture of experts"),
    ("random", r"dropout|distribution_|philox|curand|rocrand|rng_", "random numbers"),
    ("layout", r"permut|transpos|CatArray|cat_kernel|pad_kernel|im2col|col2im|nchwToNhwc|nhwcToNchw", "data moved"),
    ("reduction", r"reduc|_sum_|sum_kernel|softsum|norm_kernel|welford|^triton_(red|per)_", "named so"),
    ("indexing", r"index|gather|scatter|sort|top_?k|scan|unique|masked|tri[ul]_|arange", "named so"),
    ("indexing", r"cub::|rocprim|hipcub", "their other kernels sort and scan"),
    ("elementwise", r"elementwise|gelu|relu|silu|swiglu|sigmoid|tanh|residual|rotary|rope|pointwise|bias", "named"),
    (
        "elementwise",
        r"copy|cast|fill|zero|scale|add_|mul_|axpy|convert|op_tensor|functor|fused_add|quantiz|quant_",
        "named",
    ),
    ("elementwise", r"^triton_", "all other kernels of Inductor"),
)

_API = (
    ("launch", r"launch|graphexec"),
    ("synchronisation", r"synchronize|streamwait|eventquery|streamquery"),
    ("memcpy", r"memcpy"),
    ("memset", r"memset"),
    (ALLOCATION, r"malloc|memalloc|hostalloc|\w*free(host|async)?(_v\d)?$|hostregister|memcreate|memmap|mempool"),
    ("event", r"event"),
    ("stream", r"stream"),
    ("module", r"module|library|funcget|funcset|getprocaddress|getsymbol|entrypoint|occupancy"),
    ("device", r"device|ctx|^cuinit|meminfo|getversion|driver(get)?version"),
)


@cache
def _patterns(api: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((row[0], re.compile(row[1], re.IGNORECASE)) for row in (_API if api else _GPU))


@cache
def category(name: str, api: bool = False) -> str:
    """Return the category of a GPU activity, or of an API call, from its name."""
    if not api and _waiting_names().search(name):
        return WAIT
    return next((known for known, pattern in _patterns(api) if pattern.search(name)), OTHER)


@cache
def _waiting_names() -> re.Pattern[str]:
    """Find the declared names: after a namespace or result type; of mangled names, after their length."""
    import tomli

    names = [name for entry in tomli.loads(_WAITING.read_text("utf-8"))["kernel"] for name in entry["names"]]
    plain = "|".join(map(re.escape, names))
    mangled = "|".join(f"{len(name)}{re.escape(name)}" for name in names)
    return re.compile(rf"^(?:.*[:\s])?(?:{plain})(?:[<(.]|$)|^_Z\w*(?<!\d)(?:{mangled})", re.IGNORECASE)


_PROFILER = (  # categories that XLA's profiler gives its operations (`hlo_category`): category, pattern
    ("communication", r"all-(?:reduce|gather|to-all)|reduce-scatter|collective|send|recv|host transfer"),
    ("convolution", r"convolution"),  # XLA's products of matrices on a TPU are convolutions too
    ("gemm", r"\bdot\b|gemm|matmul"),
    ("reduction", r"reduc"),
    ("indexing", r"gather|scatter|sort|dynamic|slice|iota|top-?k"),
    ("layout", r"data formatting|copy|transpose|reshape|concat|pad|broadcast"),
    ("random", r"rng|random"),
    ("elementwise", r"(?:loop|output|non-fusion|elementwise)"),
)


@cache
def category_of_profiler(text: str) -> str:
    """Return the category of an operation with an unknown name, from the profiler's category."""
    return next((known for known, pattern in _PROFILER if re.search(pattern, text, re.IGNORECASE)), OTHER)
