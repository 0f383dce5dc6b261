"""The reference trainer: real training on torch.distributed that prints the kinds of logs that perflog reads.

`torchrun ... -m perflog.trainer RECIPE` starts it on each rank; see docs/trainer.md. To read it in the order it runs:

1. `__main__` reads the options, `recipes` the sizes of the models; `rank_context` joins the process group.
2. `language`, `kernels` or `pipeline` is the program of the recipe: a loop over runs and steps.
3. `training` over `models.language_model`, or `pipeline_training` over `models.llama`, trains a step.
   `models.synthetic_task` makes the batch; `models.master_weights` is the optimizer of parameters in bfloat16.
4. `models.moe` holds gate and experts; `models.expert_strategies` brings tokens to the experts through
   `models.collectives`.
5. `phase_clock` times the phases of a step; `matmul_baseline` times plain matrix products.
6. The modules of `printers` print the log through `log_writer`.

`perflog regenerate` starts the trainer from outside: `regenerate` plans and compares, `launch` starts torchrun,
`watched_process` runs it. These three, `recipes` and `log_writer` do not import torch.
"""
