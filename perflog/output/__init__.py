"""Output for people and other programs: sheets of text, the report, exports."""
