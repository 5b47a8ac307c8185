"""The report: an HTML page that shows a model offline."""

ENTRY_POINTS = {
    "topicstream.commands": {
        "report": "topicstream.addons.report.command:command",
    },
    "topicstream.functions": {
        "report": "topicstream.addons.report.page:report",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
COMMAND_HELP = {
    "report": "Write one HTML file that shows a model offline.",
}
"""The lines of ``topics --help``, which imports no command."""
