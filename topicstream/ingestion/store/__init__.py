"""Third stage: documents that count, word ids, side files, blocks, one rename."""
