"""First stage: inputs become sources of a known format.

Inputs are files, folders, documents in memory and standard input.
"""
