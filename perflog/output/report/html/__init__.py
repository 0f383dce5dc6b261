"""The HTML form of a report."""
