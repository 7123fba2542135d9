"""Session files of coding agents: what filled their windows, why caches missed, and what compaction lost.

Each program's file is read as a stream of the same few values (`events`); everything else is computed from these.
"""
