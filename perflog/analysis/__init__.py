"""Analysis of the tables: findings about doubtful figures, and comparisons of runs."""
