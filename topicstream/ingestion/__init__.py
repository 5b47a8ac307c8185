"""Turn raw text or counts into a corpus store (``topicstream.ingest``).

The way of a document:

    open/       what is given becomes sources of a known format
    readers/    one format a file; parse/ is what they share
    tokens/     words of texts, vocabularies, lists of words
    parts/      pieces are cut, parsed and counted in a pool, and written in order into part files
    store/      which documents count, final word ids, blocks, the commit by one rename
    upkeep/     a committed store, changed: compaction, removal, words dropped

There are two stages: part files in the working folder (``CORPUS.wip``), which anyone can open and
where a killed run carries on, and the store that is made of them. ``pipeline.py`` runs both;
``config.py`` and ``options.py`` hold the options, ``plan.py`` fits them to memory.
"""
