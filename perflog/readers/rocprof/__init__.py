"""Output of rocprofv3, the profiler of ROCm: JSON files and rocpd databases."""
