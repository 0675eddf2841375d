// The program grpc-go-server is grpc-go as a server that is configured by xDS: `grpc-go-server ADDRESS...`, with the
// bootstrap of the environment. At each address it has the health service, and rejects all other methods. It ends when
// its standard input does.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	xdscredentials "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
)

func main() {
	credentials, err := xdscredentials.NewServerCredentials(
		xdscredentials.ServerOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		log.Fatal(err)
	}
	for _, address := range os.Args[1:] {
		listener, err := net.Listen("tcp4", address)
		if err != nil {
			log.Fatal(err)
		}
		server, err := xds.NewGRPCServer(
			grpc.Creds(credentials),
			// Without a handler, a method that is not known is rejected before routes and filters are used.
			grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
				return status.Error(codes.Unimplemented, "no such method")
			}),
			xds.ServingModeCallback(func(address net.Addr, change xds.ServingModeChangeArgs) {
				log.Printf("%v: %v: %v", address, change.Mode, change.Err)
			}))
		if err != nil {
			log.Fatal(err)
		}
		healthpb.RegisterHealthServer(server, health.NewServer())
		go func() { log.Print(server.Serve(listener)) }()
	}
	fmt.Printf("{\"event\": \"ready\", \"version\": %q}\n", grpc.Version)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
