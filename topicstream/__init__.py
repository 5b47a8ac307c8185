"""topicstream: topic models of corpora bigger than RAM.

    raw files -> ingest -> tokens -> corpus (blocks on disk) -> training (engine, pass by pass) -> model
                                                     model -> evaluation, report, inference, retrain
"""

from __future__ import annotations

__version__ = "0.1.0"
