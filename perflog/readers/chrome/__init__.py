"""Chrome traces, as torch.profiler and other tools write them."""
