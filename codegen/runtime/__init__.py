"""The native runtime: JIT, object cache on disk, thread pool and target description."""
