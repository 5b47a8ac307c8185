"""Second stage: pieces are cut, parsed and counted in a pool, and written into part files."""
