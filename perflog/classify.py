"""What a GPU activity or an API call does, told from its name: a table of patterns, nothing else.

Names of kernels are no interface: libraries rename them from release to release. A pattern here is a piece of a name
that has lasted, on NVIDIA (cuBLAS, CUTLASS, cuDNN, NCCL) and on AMD (Tensile, Composable Kernel, MIOpen, RCCL). The
first that matches decides, so what is more special stands higher. What none matches is `other`.
"""

from __future__ import annotations

import re
from functools import cache

OTHER = "other"

_GPU = (
    ("memcpy", r"^\[CUDA memcpy|^Memcpy|CopyHostToDevice|CopyDeviceToHost|CopyDeviceToDevice|__amd_rocclr_copyBuffer"),
    ("memset", r"^\[CUDA memset|^Memset|__amd_rocclr_fillBuffer"),
    # ncclAllReduceRingLLKernel_sum_f32 (2.7 and older), ncclKernel_AllReduce_RING_LL_Sum_float (to 2.18),
    # ncclDevKernel_AllReduce_Sum_f32_RING_LL (since 2.19), ncclSymkDevKernel (2.27); RCCL keeps NCCL's names
    ("communication", r"^(void )?(nccl|rccl|msccl|mscclpp|nvshmem|rocshmem|userbuffers|deep_ep)|ncclDev|nvshmemi"),
    ("communication", r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|one_shot_|multimem_"),
    ("optimizer", r"adam|lamb_|_lamb|adagrad|adafactor|rmsprop|\bsgd|_sgd|lion_|multi_tensor_apply|multi_tensor_"),
    ("optimizer", r"global_norm|l2_?norm|grad_norm|clip_grad"),
    ("attention", r"flash|fmha|sdpa|attn|attention|paged_kv|mha_(fwd|bwd)|bwd_kernel_(dk_dv|dq)|unfused_mha"),
    ("loss", r"cross_?entropy|nll_?loss|mse_?loss|fused_classifier|logits_loss"),
    ("softmax", r"soft_?max"),
    ("normalisation", r"(layer|rms|batch|group|instance)_?norm|GammaBeta|\bbn_(fw|bw)|norm_(fwd|bwd)|RowwiseMoments"),
    ("convolution", r"conv(?!ert)|scudnn|(fprop|dgrad|wgrad)|winograd|igemm_(fwd|bwd|wrw)|gfx\d+_\w*nhwc"),
    ("reduction", r"backward_bias|bias_(grad|backward|reduce)"),  # before GEMM: matmul_backward_bias is a sum
    ("gemm", r"gemm|gemv|gemk1|cijk_|nvjet|matmul|splitk|cublas|rocblas|hipblas|[hi]mma_|[sh]884|16816|wgmma|tensorop"),
    ("gemm", r"triton_\w*mm\b|triton_mm|_mm_kernel|marlin|machete|dot_kernel|wmma"),
    ("embedding", r"embedding|encoder_(forward|backward)|w[tp]e_backward"),
    ("routing", r"topk_?gating|moe_|expert|token_(dispatch|combine|permut)"),
    ("random", r"dropout|distribution_|philox|curand|rocrand|rng_"),
    ("layout", r"permut|transpos|CatArray|cat_kernel|pad_kernel|im2col|col2im|nchwToNhwc|nhwcToNchw"),
    ("reduction", r"reduc|_sum_|sum_kernel|softsum|norm_kernel|welford"),
    ("indexing", r"index|gather|scatter|sort|top_?k|scan|unique|masked|tri[ul]_|arange|cub::|rocprim|hipcub"),
    (
        "elementwise",
        r"elementwise|gelu|relu|silu|swiglu|sigmoid|tanh|residual|rotary|rope|pointwise|_poi_|bias|fused_add",
    ),
    ("elementwise", r"copy|cast|fill|zero|scale|add_|mul_|axpy|convert|op_tensor|functor"),
)

_API = (
    ("launch", r"launch|graphexec"),
    ("synchronisation", r"synchronize|streamwait|eventquery|streamquery"),
    ("memcpy", r"memcpy"),
    ("memset", r"memset"),
    ("allocation", r"malloc|memalloc|hostalloc|\w*free(host|async)?(_v\d)?$|hostregister|memcreate|memmap|mempool"),
    ("event", r"event"),
    ("stream", r"stream"),
    ("module", r"module|library|funcget|funcset|getprocaddress|getsymbol|entrypoint|occupancy"),
    ("device", r"device|ctx|^cuinit|meminfo|getversion|driver(get)?version"),
)


@cache
def _patterns(api: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in (_API if api else _GPU))


@cache
def category(name: str, api: bool = False) -> str:
    """What a GPU activity of that name does, or an API call: the first category whose pattern is in the name."""
    return next((found for found, pattern in _patterns(api) if pattern.search(name)), OTHER)


CATEGORIES = (*dict.fromkeys(name for name, _ in _GPU), OTHER)
"""Categories of GPU activities."""
