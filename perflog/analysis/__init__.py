"""Analysis of the tables: findings about doubtful figures, comparisons of runs, and the overview."""
