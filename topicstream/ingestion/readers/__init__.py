"""One format a file, from raw bytes to documents."""
