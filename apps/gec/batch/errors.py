"""The two ways in which a job ends early.

Knows who has to act: the person who typed the command, or nobody until the cause is gone.
Does not know exit codes; `__main__` maps these to them.
"""


class UsageError(ValueError):
    """The job cannot be started as asked; nothing was written. The message names the remedy."""


class JobStopped(RuntimeError):
    """A started job could not go on. What was committed stays; the same command continues it."""
