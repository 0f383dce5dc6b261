"""Output for people and other programs: tables, the report, exports."""
