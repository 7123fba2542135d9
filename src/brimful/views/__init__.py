"""Views of a record: text, HTML and plain data."""

from brimful.views.explain import describe_decision, report
from brimful.views.picture import window_html

__all__ = ["describe_decision", "report", "window_html"]
