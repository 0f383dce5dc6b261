"""Settings of runs: what a log says about how a run was configured, and which of that is incidental.

In: rows of table `runs`. Out: settings as strings by name. A list of runs needs settings and no metric.

- members: the members of a setting that is printed as one string
- name_settings: settings in the names of logs, where these differ
- run_settings: the settings of a run, those in which runs differ, and those that say nothing of what was computed
"""
