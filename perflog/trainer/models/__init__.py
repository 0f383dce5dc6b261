"""The models of the trainer and their task: layers, experts, collectives with gradients, batches, an optimizer."""
