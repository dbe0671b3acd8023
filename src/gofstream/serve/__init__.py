"""The page of a run: a store shown live, and an inbox that takes batches."""
