"""Where a training starts: one file for each start (start.py has their interface), and their
kernels.
"""
