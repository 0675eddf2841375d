// Names the module whose files are read, with its checksum in go.sum. Nothing of it is compiled, so `go mod tidy` is not for this file.
module xds-interop/envoy-gateway

go 1.24

require github.com/envoyproxy/gateway v1.9.1
