"""KNN-LM (Khandelwal et al. 1911.00172): every token mixes in what followed the nearest contexts of a datastore."""
