"""Administration: backup, export, integrity checks, keys and the janitor."""
