"""Training drafters to agree with their target. `python -m core.alignment` runs what is here.

Knows target and draft models, prompts and outputs as token ids. Does not know applications.
"""
