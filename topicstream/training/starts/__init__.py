"""Where a training starts, and its kernels."""
