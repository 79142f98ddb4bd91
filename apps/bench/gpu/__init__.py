"""`python -m apps.bench gpu`: identity, the price of a pass and forced replay on a GPU, in minutes, offline."""
