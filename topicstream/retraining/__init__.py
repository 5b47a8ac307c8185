"""Drift, update, gate, publish: composition of the other rooms (``topicstream.retrain``)."""
