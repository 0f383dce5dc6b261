"""Steps of a run: which records belong to one, their number, time and rate, and what averages cover."""
