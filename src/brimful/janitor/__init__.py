"""The janitor: floods become a line, old days a summary, and what nothing needs is set aside."""
