"""A committed store changed later: removal of documents, words dropped, small blocks joined."""
