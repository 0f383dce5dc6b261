"""What the tables mean for the reader: findings about doubtful figures, and comparisons of runs."""
