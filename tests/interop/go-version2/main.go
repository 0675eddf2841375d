// Command version2-descriptors writes version 2 of the API, as go-control-plane published it, to standard output: an
// encoded google.protobuf.FileDescriptorSet in which files follow what they import.
package main

import (
	"log"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	_ "github.com/envoyproxy/go-control-plane/envoy/api/v2/auth"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
)

func main() {
	set := &descriptorpb.FileDescriptorSet{}
	written := map[string]bool{}
	var write func(file protoreflect.FileDescriptor)
	write = func(file protoreflect.FileDescriptor) {
		if written[file.Path()] {
			return
		}
		written[file.Path()] = true
		for i := range file.Imports().Len() {
			write(file.Imports().Get(i))
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		write(file)
		return true
	})
	bytes, err := proto.Marshal(set)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(bytes); err != nil {
		log.Fatal(err)
	}
}
