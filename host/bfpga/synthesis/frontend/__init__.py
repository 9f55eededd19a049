"""From the rendered C++ to the dataflow graph of every pipelined loop: clang, LLVM's passes, reading of its IR."""
