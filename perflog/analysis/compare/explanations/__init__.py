"""What explains a difference between two sides: its parts, operators, printed averages, warm-up and causes."""
