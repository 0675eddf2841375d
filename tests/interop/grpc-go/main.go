// A grpc-go application whose only knowledge of its backends comes from a management server.
//
// It starts two backends that answer every call with their own name, and obeys JSON commands on
// standard input, one a line; each is answered by one JSON event on standard output:
//
//	{"command": "connect"}               -> {"event": "connected"}
//	{"command": "call", "seconds": N}    -> {"event": "answer", ...}
//	{"command": "csds"}                  -> {"event": "csds", ...}
//
// The bootstrap is the file that GRPC_XDS_BOOTSTRAP names; it is read when the channel is made. The
// program ends when its standard input does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	statuspb "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/admin"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
	"google.golang.org/grpc/xds/csds"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	target = "xds:///svc"
	method = "/interop.Echo/WhoAreYou"
)

// What the driver says.
type command struct {
	Command string
	Seconds float64
}

type event map[string]any

func main() {
	backends := event{}
	for _, name := range []string{"first", "second"} {
		backends[name] = startBackend(name)
	}
	clientStatus, err := csds.NewClientStatusDiscoveryServer()
	if err != nil {
		fail(err)
	}
	say(event{"event": "ready", "version": grpc.Version, "backends": backends, "admin": startAdmin()})

	var channel *grpc.ClientConn
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var told command
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			fail(err)
		}
		switch told.Command {
		case "connect":
			channel, err = grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				fail(err)
			}
			say(event{"event": "connected"})
		case "call":
			say(call(channel, told.Seconds))
		case "csds":
			say(resources(clientStatus))
		default:
			fail(fmt.Errorf("unknown command %q", told.Command))
		}
	}
}

// startBackend returns the port of a server that answers every method of every service with its name.
func startBackend(name string) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return stream.SendMsg(wrapperspb.String(name))
	}))
	go server.Serve(listener)
	return listener.Addr().(*net.TCPAddr).Port
}

// startAdmin returns the address of a server with the admin services: CSDS is one of them.
func startAdmin() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	server := grpc.NewServer()
	if _, err := admin.Register(server); err != nil {
		fail(err)
	}
	go server.Serve(listener)
	return listener.Addr().String()
}

// call makes one RPC: who answered it, or how it failed.
func call(channel *grpc.ClientConn, seconds float64) event {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	name := &wrapperspb.StringValue{}
	if err := channel.Invoke(ctx, method, &emptypb.Empty{}, name); err != nil {
		failed := status.Convert(err)
		return event{"event": "answer", "backend": nil, "code": codeName(failed), "details": failed.Message()}
	}
	return event{"event": "answer", "backend": name.Value, "code": "OK", "details": nil}
}

// codeName is the name of a code as other languages write it.
func codeName(failed *status.Status) string {
	switch failed.Code().String() {
	case "Unavailable":
		return "UNAVAILABLE"
	case "DeadlineExceeded":
		return "DEADLINE_EXCEEDED"
	}
	return failed.Code().String()
}

// resources is what the client itself says about its resources.
func resources(clientStatus *csds.ClientStatusDiscoveryServer) event {
	response, err := clientStatus.FetchClientStatus(context.Background(), &statuspb.ClientStatusRequest{})
	if err != nil {
		fail(err)
	}
	found := []event{}
	for _, config := range response.GetConfig() {
		for _, resource := range config.GetGenericXdsConfigs() {
			found = append(found, event{
				"type_url": resource.GetTypeUrl(),
				"name":     resource.GetName(),
				"version":  resource.GetVersionInfo(),
				"status":   resource.GetClientStatus().String(),
				"error":    resource.GetErrorState().GetDetails(),
			})
		}
	}
	return event{"event": "csds", "resources": found}
}

func say(what event) {
	line, err := json.Marshal(what)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
