"""Reports of runs: one HTML file that holds all it shows, or Markdown for a pull request.

`gather` collects what there is to show; `html` and `markdown` show it.
"""

from perflog.page.gather import gather
from perflog.page.html import html
from perflog.page.markdown import markdown
from perflog.page.subject import Subject

__all__ = ["Subject", "gather", "html", "markdown"]
