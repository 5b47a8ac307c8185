"""Second: pieces are cut, parsed and counted in a pool, and written in order into part files."""
