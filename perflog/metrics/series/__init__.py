"""Metrics of what a run prints by step: losses, evaluations, when they reach a target, where they diverge."""
