"""Which resources ours and gRPC C-core accept, side by side."""
