"""Readers of experiment trackers: TensorBoard and Weights & Biases."""
