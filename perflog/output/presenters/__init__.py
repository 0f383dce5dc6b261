"""Sheets that the commands print, one module for each subject."""
