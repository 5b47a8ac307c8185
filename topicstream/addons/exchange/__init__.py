"""Models in and out: other programs' formats, one file a format.  ``topics export``, ``topics
import``.

Everything streams: neither the topics nor the documents need to fit memory.
"""
