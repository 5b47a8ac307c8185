"""Files on disk: only our own are replaced or removed, none is seen half-written or trusted."""
