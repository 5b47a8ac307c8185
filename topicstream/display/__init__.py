"""What people see of a model (``topicstream.report`` and ``show``)."""
