"""A package of somebody else's: one engine, one method of inference, one reader."""
