"""Changes of a committed store: documents removed, words dropped, small blocks joined."""
