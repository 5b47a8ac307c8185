"""Second: pieces are cut, parsed and counted in a pool and taken in order into the spools, with a
journal.
"""
