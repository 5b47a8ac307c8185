"""Raw text or counts -> a corpus store (``topicstream.ingest``)."""
