"""Where ours and gRPC C-core send the same calls, side by side."""
