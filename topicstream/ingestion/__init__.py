"""Turn raw text or counts into a corpus store (``topicstream.ingest``).

The folders, in the order in which a document passes them:

- open/: inputs become sources of a known format
- readers/: one format a file; parse/ has the code that they share
- tokens/: words of texts, vocabularies, lists of words
- parts/: pieces are cut, parsed and counted in a pool, and written in order into part files
- store/: documents that count, final word ids, blocks, and the commit by one rename
- upkeep/: changes of a committed store: compaction, removal of documents, words dropped

There are two stages. The first writes part files into the working folder (``CORPUS.wip``), which
anyone can open and where a killed run carries on. The second makes the store of them.
``pipeline.py`` runs both, ``config.py`` and ``options.py`` declare the options, and ``plan.py``
fits them to memory.
"""
