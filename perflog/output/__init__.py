"""What a person or another program sees: sheets of text, the report, exports."""
