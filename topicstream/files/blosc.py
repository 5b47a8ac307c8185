"""Blosc's two functions.  Our own threads decode and encode; Blosc's pool would only fight them."""

from numcodecs import blosc

blosc.use_threads = False

__all__ = ["blosc"]
