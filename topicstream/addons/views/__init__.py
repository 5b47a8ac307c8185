"""More views of a model: comparison, drift, search, hierarchy, intrusion, naming."""

ENTRY_POINTS = {
    "topicstream.options.edit": {
        "labels": "topicstream.addons.views.edit_option:EDIT",
    },
    "topicstream.options.info": {
        "drift": "topicstream.addons.views.info_option:INFO",
    },
    "topicstream.commands": {
        "compare": "topicstream.addons.views.compare_command:command",
        "cite": "topicstream.addons.views.cite_command:command",
    },
    "topicstream.functions": {
        "drift": "topicstream.addons.views.drift:drift",
    },
    "topicstream.views": {
        "find": "topicstream.addons.views.find:FindView",
        "similar": "topicstream.addons.views.similar:SimilarView",
        "tree": "topicstream.addons.views.hierarchy:TreeView",
        "reduce-to": "topicstream.addons.views.hierarchy:TreeView",
        "table": "topicstream.addons.views.word_table:TableView",
        "correlations": "topicstream.addons.views.word_table:TableView",
        "intrusion": "topicstream.addons.views.intrusion:IntrusionView",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
COMMAND_HELP = {
    "compare": "Match the topics of two models.",
    "cite": "Print BibTeX of the tool and of an engine's papers.",
}
"""The lines of ``topics --help``, which imports no command."""
