"""Prints the runs of the trainer, through the templates that perflog reads them with."""
