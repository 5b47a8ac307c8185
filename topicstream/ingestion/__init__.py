"""Raw text or counts -> a corpus store (``topicstream.ingest``).  The way of a document:

    opening/    what is given becomes sources of a known format
    readers/    one format a file; parsing/ is what they share
    spooling/   pieces are cut, parsed and counted in a pool, and taken in order into the spools
    storing/    which documents count, final word ids, blocks, the commit by one rename
    upkeep/     a committed store, changed: compaction, removal, words dropped

``pipeline.py`` runs it; ``config.py`` and ``read_options.py`` hold its options, ``plan.py`` fits it
to memory.
"""
