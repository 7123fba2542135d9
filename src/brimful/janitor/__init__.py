"""The janitor: collapse floods into one line, summarize old days, and archive what nothing uses."""
