"""The starts of a training, one file each, with their kernels. start.py has their interface."""
