"""Answers for programs over the Model Context Protocol: tools that only read, confined to some folders."""
