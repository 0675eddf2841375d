package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	// Messages that the resources carry inside an Any: protojson finds them by their type URL.
	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// loadSnapshot reads the *.json files of a directory, each a list of resources with "@type", into
// one snapshot whose types all have the same version.
func loadSnapshot(version, dir string) (*cache.Snapshot, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.json files in %s", dir)
	}
	resources := map[string][]types.Resource{}
	for _, file := range files {
		if err := loadFile(file, resources); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return cache.NewSnapshot(version, resources)
}

func loadFile(file string, resources map[string][]types.Resource) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return err
	}
	for _, item := range items {
		var packed anypb.Any
		if err := protojson.Unmarshal(item, &packed); err != nil {
			return err
		}
		resource, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		resources[packed.TypeUrl] = append(resources[packed.TypeUrl], resource)
	}
	return nil
}
