"""The critical path of a trace, and replays of its steps with something changed."""
