"""Plots of training: steps and their parts, curves, ranks, experts, pipelines, jobs."""
