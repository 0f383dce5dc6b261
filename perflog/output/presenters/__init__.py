"""What commands print, as sheets, one module for each subject."""
