"""Protocol buffers without their schema."""
