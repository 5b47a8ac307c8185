"""The estimator with scikit-learn's interface."""

ENTRY_POINTS = {"topicstream.modules": {"sklearn": "topicstream.addons.sklearn.estimator"}}
"""Group -> name -> module, as another package's entry points (docs/internals/extending.md)."""
