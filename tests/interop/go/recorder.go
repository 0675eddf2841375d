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
	if request, ok := message.(*discovery.DiscoveryRequest); ok && request.Node != nil {
		s.recorder.wireNodes.Store(request, request.Node.Id)
	}
	return nil
}

func (r *recorder) callbacks() server.CallbackFuncs {
	return server.CallbackFuncs{
		StreamOpenFunc: func(_ context.Context, stream int64, _ string) error {
			r.journal.write(map[string]any{"event": "stream_open", "stream": stream})
			return nil
		},
		StreamClosedFunc: func(stream int64, _ *core.Node) {
			r.journal.write(map[string]any{"event": "stream_closed", "stream": stream})
		},
		StreamRequestFunc:  r.onRequest,
		StreamResponseFunc: r.onResponse,
	}
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
