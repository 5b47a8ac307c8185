"""topicstream behind the interfaces of other packages, which need not be installed."""
