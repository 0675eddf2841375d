"""The same script for two clients, ours and gRPC C-core, and what they say compared field by field."""
