"""The inspector API: contexts and their decisions, what-if, statistics, and stored records."""
