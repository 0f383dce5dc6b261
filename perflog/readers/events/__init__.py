"""What readers of traces share: events as numpy columns, and the rows that they become."""
