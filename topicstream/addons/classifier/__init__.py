"""Classifiers that predict topics: maximum entropy, naive Bayes, a hybrid."""

ENTRY_POINTS = {
    "topicstream.options.train": {
        "classifier": "topicstream.addons.classifier.train_option:TRAIN",
    },
    "topicstream.model_parts": {
        "classifier": "topicstream.addons.classifier.model:PART",
    },
    "topicstream.commands": {
        "classifier": "topicstream.addons.classifier.command:command",
    },
    "topicstream.functions": {
        "train_classifier": "topicstream.addons.classifier.training:train_classifier",
    },
    "topicstream.methods": {
        "hybrid": "topicstream.addons.classifier.hybrid:Hybrid",
        "maxent": "topicstream.addons.classifier.maxent:MaxEnt",
        "naive-bayes": "topicstream.addons.classifier.naive_bayes:NaiveBayes",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
COMMAND_HELP = {
    "classifier": "Train a fast classifier that predicts topics of new documents.",
}
"""The lines of ``topics --help``, which imports no command."""
