"""Third stage: the store is made of the parts, and committed by one rename."""
