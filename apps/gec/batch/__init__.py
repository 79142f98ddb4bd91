"""Batch correction jobs: a file of rows in, the same file with corrected rows out, through any kill.

Knows files, rows and how to continue; see `job` for the order of things. Does not know models: whatever has
`correct_batch` can be the corrector.
"""

from .config import JobConfig
from .dealing import BatchCorrector, Corrected
from .errors import JobStopped, UsageError
from .job import Report, run_job

__all__ = ["BatchCorrector", "Corrected", "JobConfig", "JobStopped", "Report", "UsageError", "run_job"]
