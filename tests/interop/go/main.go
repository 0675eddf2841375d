// Command go-control-plane-server is a real management server to test our client against: it
// serves snapshots of resources with go-control-plane, in both variants, over aggregated streams and
// over one for each type, and reports, as JSON lines on standard output, every request and response that its callbacks see.
//
// Commands come on standard input, one a line:
//
//	snapshot VERSION DIR    serve the resources of DIR from now on, all types at VERSION
//
// Its port is open from the beginning, but nobody is answered before the first snapshot is there.
// It ends when standard input does, so it never outlives the program that started it.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	cluster "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on; port 0 picks a free one")
	node := flag.String("node", "test-id", "id of the node that the snapshots are for")
	flag.Parse()
	if err := run(*listen, *node); err != nil {
		log.Fatal(err)
	}
}

func run(listen, node string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	journal := newJournal(os.Stdout)
	// The first argument turns on the mode for aggregated streams, the second says how a request's
	// node becomes the key of its snapshot.
	snapshots := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	recorder := newRecorder(journal)
	grpcServer := grpc.NewServer(grpc.StreamInterceptor(recorder.intercept))
	xds := server.NewServer(context.Background(), snapshots, recorder.callbacks())
	discovery.RegisterAggregatedDiscoveryServiceServer(grpcServer, xds)
	cluster.RegisterClusterDiscoveryServiceServer(grpcServer, xds)
	endpoint.RegisterEndpointDiscoveryServiceServer(grpcServer, xds)
	listenerservice.RegisterListenerDiscoveryServiceServer(grpcServer, xds)
	route.RegisterRouteDiscoveryServiceServer(grpcServer, xds)

	restListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	rest := &http.Server{Handler: restHandler(xds, journal)}

	journal.write(map[string]any{
		"event":   "listening",
		"address": listener.Addr().String(),
		"rest":    restListener.Addr().String(),
		"version": goControlPlaneVersion(),
		"go":      runtime.Version(),
	})

	// Clients that connect by now wait: what they are answered does not depend on who was first.
	input := bufio.NewScanner(os.Stdin)
	if !input.Scan() {
		return input.Err()
	}
	if err := obey(input.Text(), snapshots, node, journal); err != nil {
		return err
	}
	serving := make(chan error, 2)
	go func() { serving <- grpcServer.Serve(listener) }()
	go func() { serving <- rest.Serve(restListener) }()
	commands := make(chan error, 1)
	go func() { commands <- obeyAll(input, snapshots, node, journal) }()
	select {
	case err = <-serving:
	case err = <-commands:
		grpcServer.Stop()
		rest.Close()
	}
	return err
}

// restHandler answers over REST-JSON as go-control-plane's gateway says.
func restHandler(xds server.Server, journal *journal) http.Handler {
	gateway := &server.HTTPGateway{Server: xds}
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, status, err := gateway.ServeHTTP(request)
		journal.write(map[string]any{"event": "rest", "path": request.URL.Path, "status": status})
		if err != nil {
			http.Error(writer, err.Error(), status)
			return
		}
		writer.WriteHeader(status)
		// A client that has gone has no use for it.
		_, _ = writer.Write(body)
	})
}

// obeyAll carries out the commands of the input until it ends or one of them is wrong.
func obeyAll(input *bufio.Scanner, snapshots cache.SnapshotCache, node string, journal *journal) error {
	for input.Scan() {
		if err := obey(input.Text(), snapshots, node, journal); err != nil {
			return err
		}
	}
	return input.Err()
}

func obey(command string, snapshots cache.SnapshotCache, node string, journal *journal) error {
	words := strings.SplitN(command, " ", 3)
	if len(words) != 3 || words[0] != "snapshot" {
		return fmt.Errorf("unknown command: %q", command)
	}
	version, dir := words[1], words[2]
	snapshot, err := loadSnapshot(version, dir)
	if err != nil {
		return err
	}
	// Told before it is set: the responses that it causes come after it in the journal.
	journal.write(map[string]any{"event": "snapshot", "version": version})
	return snapshots.SetSnapshot(context.Background(), node, snapshot)
}

// goControlPlaneVersion is the version of the module that this binary was really built with.
func goControlPlaneVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/envoyproxy/go-control-plane" {
				return module.Version
			}
		}
	}
	return "unknown"
}
