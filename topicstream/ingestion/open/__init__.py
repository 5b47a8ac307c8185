"""First: what is given, files, folders, memory or standard input, becomes sources whose format is
known.
"""
