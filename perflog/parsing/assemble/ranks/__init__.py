"""Ranks of records: printed, labelled, proved by rules and votes."""
