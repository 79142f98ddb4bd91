"""`python -m apps.bench ralm`: speculative against plain retrieval while writing.

Parts, each within its own minutes: `latency` (a real index behind waits of chosen length), `real` (flat, HNSW and BM25
as they are, and BM25 behind 50 ms), `knn` (KNN-LM over millions of contexts), `grid` (waits and hit rates both chosen,
for the picture). The baseline is our own sequential mode; the paper's, which reads everything anew for every document,
stands beside it by its name.
"""

from .command import main

__all__ = ["main"]
