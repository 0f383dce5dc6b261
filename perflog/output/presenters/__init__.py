"""What the commands show, as sheets."""
