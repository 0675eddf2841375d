package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/stream/v3"
)

// fleet is a cache, and clients as the library's own stream server keeps them: one subscription each,
// and one watch until it is answered.
type fleet struct {
	cell
	resources []*endpoint.ClusterLoadAssignment
	watcher   cache.ConfigWatcher
	// Stores a changed resource.
	change func(*endpoint.ClusterLoadAssignment) error
	// Resources in every response.
	expected int
	clients  []*client
}

type client struct {
	subscription stream.Subscription
	responses    chan cache.DeltaResponse
	frame        []byte
}

const (
	typeURL = resource.EndpointType
	node    = "bench"
	// Names of a client that subscribes by name.
	names = 100
	// Coprime to all sizes: names in such steps are spread over all resources.
	step = 7_919
)

func newFleet(cell cell) *fleet {
	f := &fleet{cell: cell}
	for index := range cell.resources {
		f.resources = append(f.resources, assignment(index, 1))
	}
	switch cell.cache {
	case "linear":
		f.useLinear()
	case "snapshot":
		f.useSnapshots()
	}
	return f
}

func (f *fleet) useLinear() {
	all := map[string]types.Resource{}
	for _, assignment := range f.resources {
		all[assignment.ClusterName] = assignment
	}
	linear := cache.NewLinearCache(typeURL, cache.WithInitialResources(all))
	f.watcher = linear
	f.change = func(assignment *endpoint.ClusterLoadAssignment) error {
		return linear.UpdateResource(assignment.ClusterName, assignment)
	}
}

func (f *fleet) useSnapshots() {
	snapshots := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	f.watcher = snapshots
	version := 0
	set := func() error {
		version++
		all := make([]types.Resource, 0, len(f.resources))
		for _, assignment := range f.resources {
			all = append(all, assignment)
		}
		resources := map[resource.Type][]types.Resource{typeURL: all}
		snapshot, err := cache.NewSnapshot(strconv.Itoa(version), resources)
		if err != nil {
			return err
		}
		return snapshots.SetSnapshot(context.Background(), node, snapshot)
	}
	f.change = func(assignment *endpoint.ClusterLoadAssignment) error {
		f.resources[0] = assignment
		return set()
	}
	if err := set(); err != nil {
		panic(err)
	}
}

// connect lets all clients subscribe, and sends them what they ask for.
func (f *fleet) connect() error {
	f.expected = f.cell.resources
	if f.subscription == "named" {
		f.expected = names
	}
	for index := range f.cell.clients {
		wanted := []string{"*"}
		if f.subscription == "named" {
			wanted = namesOf(index, f.cell.resources)
		}
		f.clients = append(f.clients, &client{
			subscription: stream.NewDeltaSubscription(wanted, nil, nil, true),
			responses:    make(chan cache.DeltaResponse, 1),
		})
	}
	for _, client := range f.clients {
		if err := f.watch(client, ""); err != nil {
			return err
		}
	}
	if err := f.send(); err != nil {
		return err
	}
	if err := f.acknowledge(); err != nil {
		return err
	}
	f.expected = 1
	return nil
}

func (f *fleet) acknowledge() error {
	for _, client := range f.clients {
		client.frame = nil
		if err := f.watch(client, "1"); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) watch(client *client, nonce string) error {
	request := &discovery.DeltaDiscoveryRequest{
		Node:          &core.Node{Id: node},
		TypeUrl:       typeURL,
		ResponseNonce: nonce,
	}
	_, err := f.watcher.CreateDeltaWatch(request, &client.subscription, client.responses)
	return err
}

// namesOf is the resource that changes and others, spread differently for each client.
func namesOf(client, resources int) []string {
	wanted := []string{name(0)}
	seen := map[int]bool{0: true}
	for n := 1; len(wanted) < names; n++ {
		index := (client*names + n) * step % resources
		if !seen[index] {
			seen[index] = true
			wanted = append(wanted, name(index))
		}
	}
	return wanted
}

func name(index int) string {
	return fmt.Sprintf("outbound|8080||svc-%06d.prod.svc.cluster.local", index)
}

func assignment(index int, port uint32) *endpoint.ClusterLoadAssignment {
	address := &core.Address{Address: &core.Address_SocketAddress{
		SocketAddress: &core.SocketAddress{
			Address:       "10.0.0.1",
			PortSpecifier: &core.SocketAddress_PortValue{PortValue: port},
		},
	}}
	return &endpoint.ClusterLoadAssignment{
		ClusterName: name(index),
		Endpoints: []*endpoint.LocalityLbEndpoints{{
			LbEndpoints: []*endpoint.LbEndpoint{{
				HostIdentifier: &endpoint.LbEndpoint_Endpoint{
					Endpoint: &endpoint.Endpoint{Address: address},
				},
			}},
		}},
	}
}

// version is that of the module that this binary was really built with.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/envoyproxy/go-control-plane" {
				return module.Version
			}
		}
	}
	return "unknown"
}
