"""Matrix products and convolutions on GPUs: tile configurations, SIMT and tensor-core kernels."""
