"""Records as Arrow record batches, over the columns that the kernels decode. Needs pyarrow (extra `arrow`)."""
