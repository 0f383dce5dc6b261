"""Families of lines with fields that come and go: key-value pairs, JSON objects, printed tables."""
