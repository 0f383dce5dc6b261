"""The reference trainer: real training on torch.distributed that prints the kinds of logs perflog reads.

Started with `torchrun ... -m perflog.trainer RECIPE`; see docs/trainer.md. In the order it runs: __main__ (options),
recipes (sizes), cluster (ranks), language, kernels or pipeline (the programs), training and model (what they time),
strategies over moe and exchange (experts), clock (how), lines (what is printed). Without torch only recipes and lines
work.
"""
