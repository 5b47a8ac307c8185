"""Which number of topics, which engine: several trainings, one judge."""
