"""The reference trainer: real training on torch.distributed that prints the kinds of logs that perflog reads.

`torchrun ... -m perflog.trainer RECIPE` starts it on each rank; see docs/trainer.md. To read it in the order it runs:

1. `__main__` reads the options, `recipes` the sizes of the models; `rank_context` joins the process group.
2. `language`, `kernels` or `pipeline` is the program of the recipe: a loop over runs and steps.
3. `training` over `language_model`, or `pipeline_training` over `llama`, trains a step. `synthetic_task` makes the
   batch; `master_weights` is the optimizer of parameters in bfloat16.
4. `moe` holds gate and experts; `expert_strategies` brings tokens to the experts through `collectives`.
5. `phase_clock` times the phases of a step; `matmul_baseline` times plain matrix products.
6. `run_header`, `reference_printer`, `original_printers` and `pipeline_printers` print the log through `log_writer`.

`perflog regenerate` starts the trainer from outside: `regenerate` plans and compares, `launch` starts torchrun,
`watched_process` runs it. These three, `recipes` and `log_writer` do not import torch.
"""
