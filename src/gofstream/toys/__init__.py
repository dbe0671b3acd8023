"""Pseudo-experiments: whole data sets drawn from the nominal model."""
