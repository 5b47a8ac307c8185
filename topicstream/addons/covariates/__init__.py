"""Regression of topic shares on covariates of documents."""

ENTRY_POINTS = {
    "topicstream.commands": {
        "effects": "topicstream.addons.covariates.command:command",
    },
    "topicstream.views": {
        "covariates": "topicstream.addons.covariates.view:CovariatesView",
    },
    "topicstream.functions": {
        "effects": "topicstream.addons.covariates.covariates:effects",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
COMMAND_HELP = {
    "effects": "Regress topic shares on covariates, with standard errors.",
}
"""The lines of ``topics --help``, which imports no command."""
