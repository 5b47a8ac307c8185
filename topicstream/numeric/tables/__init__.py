"""The big tables of a run, with the same bits in RAM and on disk.

- spec.py: declarations of tables by engines, and the types of rows and deltas
- table.py: the interface that the pass loop uses
- dense.py: tables of floating-point rows
- packed.py: tables of sparse rows of whole counts
- rounds.py: the deltas of a round until they are applied
"""
