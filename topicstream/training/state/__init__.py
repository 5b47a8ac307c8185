"""What a training run keeps on disk: record, history, block memory, checkpoints, tables."""
