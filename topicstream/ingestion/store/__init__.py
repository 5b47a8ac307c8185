"""Third: which documents count, final word ids, side files joined, blocks, and the commit by one
rename.
"""
