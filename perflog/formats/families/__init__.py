"""Families of lines whose fields come and go: key-value pairs, JSON objects, printed tables."""
