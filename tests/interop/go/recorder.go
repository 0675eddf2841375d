package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
)

// journal writes one JSON object a line, from any goroutine.
type journal struct {
	mutex   sync.Mutex
	encoder *json.Encoder
}

func newJournal(out io.Writer) *journal {
	return &journal{encoder: json.NewEncoder(out)}
}

func (j *journal) write(entry map[string]any) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if err := j.encoder.Encode(entry); err != nil {
		log.Fatal(err)
	}
}

// recorder tells the journal what go-control-plane's callbacks see.
type recorder struct {
	journal *journal
	// Request to the node id it carried on the wire: the server fills in the node of the stream
	// before it calls back, and whether the client repeated it is just what we want to know.
	wireNodes sync.Map
}

func newRecorder(journal *journal) *recorder {
	return &recorder{journal: journal}
}

// intercept wraps every stream so that requests are seen as they came from the wire.
func (r *recorder) intercept(
	service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	return handler(service, &recordedStream{ServerStream: stream, recorder: r})
}

type recordedStream struct {
	grpc.ServerStream
	recorder *recorder
}

func (s *recordedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	switch request := message.(type) {
	case *discovery.DiscoveryRequest:
		if request.Node != nil {
			s.recorder.wireNodes.Store(request, request.Node.Id)
		}
	case *discovery.DeltaDiscoveryRequest:
		if request.Node != nil {
			s.recorder.wireNodes.Store(request, request.Node.Id)
		}
	}
	return nil
}

func (r *recorder) callbacks() server.CallbackFuncs {
	return server.CallbackFuncs{
		StreamOpenFunc: func(_ context.Context, stream int64, typeURL string) error {
			r.onOpen(stream, typeURL)
			return nil
		},
		StreamClosedFunc: func(stream int64, _ *core.Node) {
			r.onClosed(stream)
		},
		DeltaStreamOpenFunc: func(_ context.Context, stream int64, typeURL string) error {
			r.onOpen(stream, typeURL)
			return nil
		},
		DeltaStreamClosedFunc: func(stream int64, _ *core.Node) {
			r.onClosed(stream)
		},
		StreamRequestFunc:       r.onRequest,
		StreamResponseFunc:      r.onResponse,
		StreamDeltaRequestFunc:  r.onDeltaRequest,
		StreamDeltaResponseFunc: r.onDeltaResponse,
	}
}

// onOpen notes a stream; the type is empty for an aggregated one.
func (r *recorder) onOpen(stream int64, typeURL string) {
	r.journal.write(map[string]any{"event": "stream_open", "stream": stream, "type_url": typeURL})
}

func (r *recorder) onClosed(stream int64) {
	r.journal.write(map[string]any{"event": "stream_closed", "stream": stream})
}

func (r *recorder) onDeltaRequest(stream int64, request *discovery.DeltaDiscoveryRequest) error {
	node, _ := r.wireNodes.LoadAndDelete(request)
	var rejection any
	if detail := request.ErrorDetail; detail != nil {
		rejection = map[string]any{"code": detail.Code, "message": detail.Message}
	}
	held := map[string]string{}
	for name, version := range request.InitialResourceVersions {
		held[name] = version
	}
	r.journal.write(map[string]any{
		"event":        "delta_request",
		"stream":       stream,
		"type_url":     request.TypeUrl,
		"subscribe":    append([]string{}, request.ResourceNamesSubscribe...),
		"unsubscribe":  append([]string{}, request.ResourceNamesUnsubscribe...),
		"held":         held,
		"nonce":        request.ResponseNonce,
		"node":         node,
		"error_detail": rejection,
	})
	return nil
}

func (r *recorder) onDeltaResponse(
	stream int64, _ *discovery.DeltaDiscoveryRequest, response *discovery.DeltaDiscoveryResponse,
) {
	resources := map[string]string{}
	for _, resource := range response.Resources {
		resources[resource.Name] = resource.Version
	}
	r.journal.write(map[string]any{
		"event":     "delta_response",
		"stream":    stream,
		"type_url":  response.TypeUrl,
		"resources": resources,
		"removed":   append([]string{}, response.RemovedResources...),
		"nonce":     response.Nonce,
	})
}

func (r *recorder) onRequest(stream int64, request *discovery.DiscoveryRequest) error {
	node, _ := r.wireNodes.LoadAndDelete(request)
	var rejection any
	if detail := request.ErrorDetail; detail != nil {
		rejection = map[string]any{"code": detail.Code, "message": detail.Message}
	}
	r.journal.write(map[string]any{
		"event":        "request",
		"stream":       stream,
		"type_url":     request.TypeUrl,
		"names":        append([]string{}, request.ResourceNames...),
		"version":      request.VersionInfo,
		"nonce":        request.ResponseNonce,
		"node":         node,
		"error_detail": rejection,
	})
	return nil
}

func (r *recorder) onResponse(
	_ context.Context, stream int64, _ *discovery.DiscoveryRequest, response *discovery.DiscoveryResponse,
) {
	names := []string{}
	for _, resource := range response.Resources {
		if message, err := resource.UnmarshalNew(); err == nil {
			names = append(names, cache.GetResourceName(message))
		}
	}
	r.journal.write(map[string]any{
		"event":    "response",
		"stream":   stream,
		"type_url": response.TypeUrl,
		"names":    names,
		"version":  response.VersionInfo,
		"nonce":    response.Nonce,
	})
}
