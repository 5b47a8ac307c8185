"""Regression of topic shares on covariates of documents."""

ENTRY_POINTS = {
    "topicstream.commands": {
        "effects": "topicstream.addons.covariates.command:command",
    },
    "topicstream.functions": {
        "effects": "topicstream.addons.covariates.covariates:effects",
    },
}
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
COMMAND_HELP = {
    "effects": "Regress topic shares on covariates, with standard errors.",
}
"""The lines of ``topics --help``, which imports no command."""
