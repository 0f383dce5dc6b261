"""From the name of a log to chunks of whole, clean lines."""
