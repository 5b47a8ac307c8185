"""Training, ingestion and scoring on the workers of a Dask cluster."""
