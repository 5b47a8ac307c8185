"""Models, topics of documents and corpora in other programs' formats."""

ENTRY_POINTS = {
    "topicstream.commands": {
        "export": "topicstream.addons.exchange.export_command:command",
        "import": "topicstream.addons.exchange.import_command:command",
    },
    "topicstream.functions": {
        "export_model": "topicstream.addons.exchange.exchanging:export_model",
        "import_model": "topicstream.addons.exchange.exchanging:import_model",
    },
}
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
COMMAND_HELP = {
    "export": "Write a model, the topics of its documents or its corpus for other programs.",
    "import": "Import another program's model to show, score, compare or start from.",
}
"""The lines of ``topics --help``, which imports no command."""
