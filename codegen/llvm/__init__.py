"""The LLVM emitter: loop IR becomes LLVM IR."""
