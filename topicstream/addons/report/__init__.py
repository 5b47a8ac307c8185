"""One HTML page that shows a model offline."""

ENTRY_POINTS = {
    "topicstream.commands": {
        "report": "topicstream.addons.report.command:command",
    },
    "topicstream.functions": {
        "report": "topicstream.addons.report.page:report",
    },
}
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
COMMAND_HELP = {
    "report": "Write one HTML file that shows a model offline.",
}
"""The lines of ``topics --help``, which imports no command."""
