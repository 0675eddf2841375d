// Command go-control-plane-bench measures what benches/beside.rs measures, with go-control-plane: a
// resource changes, all incremental clients are sent it, all of them answer.
//
// Its caches are called directly; there are neither streams nor a network. It prints one line for each
// measurement, separated by tabs:
//
//	cache  subscription  resources  clients  part  value
//
// Parts are "change" (from the new resource to the encoded responses of all clients) and "ACKs" (all
// watches are there again), both in nanoseconds that processors worked, garbage collection included, in
// the mean of all rounds; and "heap" in bytes of each client.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"
)

// cell is one measurement. What a cell costs grows with resources times clients: the largest, the last,
// keeps some 600 MB for its clients.
type cell struct {
	cache, subscription string
	resources, clients  int
}

var cells = []cell{
	{"linear", "wildcard", 1_000, 100},
	{"linear", "wildcard", 1_000, 1_000},
	{"linear", "wildcard", 10_000, 100},
	{"linear", "named", 1_000, 100},
	{"linear", "named", 1_000, 1_000},
	{"linear", "named", 10_000, 100},
	{"linear", "named", 10_000, 1_000},
	{"snapshot", "wildcard", 1_000, 100},
	{"snapshot", "wildcard", 1_000, 1_000},
	{"snapshot", "wildcard", 10_000, 100},
	{"snapshot", "wildcard", 10_000, 1_000},
	{"linear", "wildcard", 10_000, 1_000},
}

const (
	leastRounds = 3
	mostRounds  = 100
	// A cell is measured for this long, unless it has had too few rounds by then.
	enough = 2 * time.Second
)

func main() {
	quick := flag.Bool("quick", false, "only the smallest cell of each cache, to see that it runs")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "go-control-plane", version())
	for _, cell := range cells {
		if *quick && cell.resources*cell.clients > 100_000 {
			continue
		}
		if err := measure(cell); err != nil {
			log.Fatalf("%v: %v", cell, err)
		}
	}
}

func measure(cell cell) error {
	fleet := newFleet(cell)
	before := heap()
	if err := fleet.connect(); err != nil {
		return err
	}
	perClient := (heap() - before) / int64(cell.clients)
	var changes, acks time.Duration
	rounds := 0
	started := time.Now()
	for rounds < mostRounds && (rounds < leastRounds || time.Since(started) < enough) {
		// Never again the version that everything began with.
		assignment := assignment(0, uint32(rounds+2))
		begun := worked()
		if err := fleet.change(assignment); err != nil {
			return err
		}
		if err := fleet.send(); err != nil {
			return err
		}
		sent := worked()
		if err := fleet.acknowledge(); err != nil {
			return err
		}
		changes += sent - begun
		acks += worked() - sent
		rounds++
	}
	print := func(part string, value int64) {
		fmt.Printf("%s\t%s\t%d\t%d\t%s\t%d\n",
			cell.cache, cell.subscription, cell.resources, cell.clients, part, value)
	}
	print("change", changes.Nanoseconds()/int64(rounds))
	print("ACKs", acks.Nanoseconds()/int64(rounds))
	print("heap", perClient)
	runtime.KeepAlive(fleet)
	return nil
}

// worked is how long processors have worked for this process, on all of its threads.
func worked() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// heap is what is held, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// send takes every client's response, one each, and encodes it.
func (f *fleet) send() error {
	for _, client := range f.clients {
		select {
		case response := <-client.responses:
			message, err := response.GetDeltaDiscoveryResponse()
			if err != nil {
				return err
			}
			if len(message.Resources) != f.expected {
				return fmt.Errorf("%d resources in a response, not %d",
					len(message.Resources), f.expected)
			}
			if client.frame, err = proto.Marshal(message); err != nil {
				return err
			}
			client.subscription.SetReturnedResources(response.GetReturnedResources())
		default:
			return fmt.Errorf("a client was sent nothing")
		}
	}
	return nil
}
