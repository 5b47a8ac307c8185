"""The big tables of a run, with the same bits in RAM and on disk.

spec.py      what an engine asks of a table, and the types that rows and deltas have
table.py     the interface that the pass loop sees
dense.py     rows of floating-point numbers        packed.py    sparse rows of whole counts
rounds.py    where the deltas of a round wait
"""
