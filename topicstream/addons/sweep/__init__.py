"""Train several numbers of topics and seeds, and recommend one."""

ENTRY_POINTS = {
    "topicstream.commands": {
        "sweep": "topicstream.addons.sweep.command:command",
    },
    "topicstream.functions": {
        "sweep": "topicstream.addons.sweep.sweep:sweep",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
COMMAND_HELP = {
    "sweep": "Train several numbers of topics and seeds, and recommend one.",
}
"""The lines of ``topics --help``, which imports no command."""
