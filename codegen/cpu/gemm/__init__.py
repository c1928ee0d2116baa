"""Matrix products and convolutions on CPUs: packing, register tiles and tasks."""
