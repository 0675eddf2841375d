// Command server is a management server of go-control-plane for `benches/peers/load`: it serves the
// resources in a directory from linear caches, one for each type, in both variants of the protocol.
//
//	server DIR ADDRESS
//
// Each file of the directory is a DiscoveryResponse as JSON. The signal USR1 makes it read the directory
// again; resources that have not changed are not updated.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// served has the resources of one type, by name, and the cache that serves them.
type served struct {
	resources map[string]types.Resource
	cache     *cache.LinearCache
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: server DIR ADDRESS")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(directory, address string) error {
	all := map[string]*served{}
	caches := map[string]cache.Cache{}
	for _, typeURL := range []string{
		resource.ClusterType, resource.EndpointType, resource.ListenerType, resource.RouteType,
	} {
		linear := cache.NewLinearCache(typeURL)
		all[typeURL] = &served{resources: map[string]types.Resource{}, cache: linear}
		caches[typeURL] = linear
	}
	if err := update(all, directory); err != nil {
		return err
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGUSR1)
	go func() {
		for range again {
			if err := update(all, directory); err != nil {
				log.Print(err)
			}
		}
	}()
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := cache.MuxCache{
		Classify:      func(request *cache.Request) string { return request.TypeUrl },
		ClassifyDelta: func(request *cache.DeltaRequest) string { return request.TypeUrl },
		Caches:        caches,
	}
	transport := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(
		transport, server.NewServer(context.Background(), &mux, nil))
	fmt.Println("serving", directory, "on", address)
	return transport.Serve(socket)
}

// update reads the directory and gives the caches what has changed.
func update(all map[string]*served, directory string) error {
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return err
	}
	found := map[string]map[string]types.Resource{}
	for _, file := range files {
		if err := read(file, found); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	for typeURL, served := range all {
		changed := map[string]types.Resource{}
		for name, message := range found[typeURL] {
			if old, has := served.resources[name]; !has || !proto.Equal(old, message) {
				changed[name] = message
			}
		}
		var gone []string
		for name := range served.resources {
			if _, has := found[typeURL][name]; !has {
				gone = append(gone, name)
			}
		}
		if len(changed) == 0 && len(gone) == 0 {
			continue
		}
		if err := served.cache.UpdateResources(changed, gone); err != nil {
			return err
		}
		served.resources = found[typeURL]
	}
	return nil
}

func read(file string, found map[string]map[string]types.Resource) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	response := &discovery.DiscoveryResponse{}
	if err := protojson.Unmarshal(text, response); err != nil {
		return err
	}
	for _, wrapped := range response.Resources {
		message, err := wrapped.UnmarshalNew()
		if err != nil {
			return err
		}
		var name string
		switch message := message.(type) {
		case *cluster.Cluster:
			name = message.Name
		case *endpoint.ClusterLoadAssignment:
			name = message.ClusterName
		case *listener.Listener:
			name = message.Name
		case *route.RouteConfiguration:
			name = message.Name
		default:
			return fmt.Errorf("unexpected type %s", wrapped.TypeUrl)
		}
		if found[wrapped.TypeUrl] == nil {
			found[wrapped.TypeUrl] = map[string]types.Resource{}
		}
		found[wrapped.TypeUrl][name] = message
	}
	return nil
}
