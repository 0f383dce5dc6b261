"""Reports of runs: one HTML file that holds all it shows, or Markdown for a pull request.

`gather` collects what there is to show; `html` and `markdown` show it.
"""

from perflog.output.report.gather import gather
from perflog.output.report.html import html
from perflog.output.report.markdown import markdown
from perflog.output.report.subject import Subject

__all__ = ["Subject", "gather", "html", "markdown"]
