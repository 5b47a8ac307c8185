"""Models, topics of documents and corpora in other programs' formats."""

ENTRY_POINTS = {
    "topicstream.formats": {
        "parquet": "topicstream.addons.exchange.formats:PARQUET",
        "csv": "topicstream.addons.exchange.formats:CSV",
        "parquet-theta": "topicstream.addons.exchange.formats:PARQUET_THETA",
        "pyldavis": "topicstream.addons.exchange.formats:PYLDAVIS",
        "mallet": "topicstream.addons.exchange.formats:MALLET",
        "mallet-doc-topics": "topicstream.addons.exchange.formats:MALLET_DOC_TOPICS",
        "mallet-state": "topicstream.addons.exchange.formats:MALLET_STATE",
        "ldac-beta": "topicstream.addons.exchange.formats:LDAC_BETA",
        "ldac": "topicstream.addons.exchange.formats:LDAC",
        "uci": "topicstream.addons.exchange.formats:UCI",
        "mtx": "topicstream.addons.exchange.formats:MTX",
    },
    "topicstream.converters": {
        "to_gensim": "topicstream.addons.exchange.objects:to_gensim",
        "to_sklearn": "topicstream.addons.exchange.objects:to_sklearn",
        "from_gensim": "topicstream.addons.exchange.objects:from_gensim",
        "from_sklearn": "topicstream.addons.exchange.objects:from_sklearn",
        "from_tomotopy": "topicstream.addons.exchange.objects:from_tomotopy",
    },
    "topicstream.commands": {
        "export": "topicstream.addons.exchange.export_command:command",
        "import": "topicstream.addons.exchange.import_command:command",
    },
    "topicstream.functions": {
        "export_model": "topicstream.addons.exchange.exchanging:export_model",
        "import_model": "topicstream.addons.exchange.exchanging:import_model",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
COMMAND_HELP = {
    "export": "Write a model, the topics of its documents or its corpus for other programs.",
    "import": "Import another program's model to show, score, compare or start from.",
}
"""The lines of ``topics --help``, which imports no command."""
