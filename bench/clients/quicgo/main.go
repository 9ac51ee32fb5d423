// Command quicgo sends one DNS query again and again over QUIC (RFC 9250) or HTTP/3 (RFC 8484), as fast as it is answered, and prints
// as JSON what came of it. Certificates are not checked.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	headerOctets = 12
	mediaType    = "application/dns-message"
	// Latencies are rounded down to so many significant bits.
	significantBits = 7
)

var (
	transport   = flag.String("transport", "doq", "doq or doh3")
	address     = flag.String("address", "127.0.0.1:853", "HOST:PORT of the server")
	path        = flag.String("path", "/dns-query", "of requests over HTTP/3")
	message     = flag.String("query", "", "the query in wire form, hexadecimal, with id 0")
	connections = flag.Int("connections", 1, "open at the same time")
	inFlight    = flag.Int("in-flight", 1, "queries under way, over all connections")
	seconds     = flag.Float64("seconds", 3, "after which no query is sent any more")
	fresh       = flag.Bool("new-connection", false, "make a new connection for each query")
	timeout     = flag.Duration("timeout", 5*time.Second, "after which a query is lost")
)

// report is the output. Latencies are pairs of nanoseconds and how many queries took that long.
type report struct {
	Answers   uint64            `json:"answers"`
	Errors    map[string]uint64 `json:"errors"`
	Rcodes    map[int]uint64    `json:"rcodes"`
	Statuses  map[int]uint64    `json:"statuses"`
	Wrong     uint64            `json:"wrong"`
	Octets    uint64            `json:"octets"`
	Seconds   float64           `json:"seconds"`
	Latencies [][2]uint64       `json:"latencies"`
}

// connection is one connection to the server, used by several goroutines.
type connection interface {
	exchange(ctx context.Context, query []byte) ([]byte, error)
	close()
}

// statusError is an HTTP status other than 200: a wrong answer.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("HTTP status %d", int(e)) }

func main() {
	flag.Parse()
	query, err := hex.DecodeString(*message)
	if err != nil || len(query) < headerOctets {
		fail(fmt.Errorf("-query is not a DNS message in hexadecimal"))
	}
	if *connections < 1 || *inFlight < *connections {
		fail(fmt.Errorf("-in-flight is at least -connections, which is at least 1"))
	}
	var dial func(context.Context) (connection, error)
	switch *transport {
	case "doq":
		dial = dialDoQ
	case "doh3":
		dial = dialDoH3
	default:
		fail(fmt.Errorf("-transport is doq or doh3, not %q", *transport))
	}
	found, err := run(dial, query)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "quicgo: %v\n", err)
	os.Exit(1)
}

// ---- load ----

// run sends the query from all goroutines until the time is over, and adds up what they counted.
func run(dial func(context.Context) (connection, error), query []byte) (*report, error) {
	open := make([]connection, *connections)
	if !*fresh {
		for i := range open {
			ctx, cancel := context.WithTimeout(context.Background(), *timeout)
			made, err := dial(ctx)
			cancel()
			if err != nil {
				return nil, err
			}
			defer made.close()
			open[i] = made
		}
	}
	began := time.Now()
	end := began.Add(time.Duration(*seconds * float64(time.Second)))
	counts := make([]*counter, *inFlight)
	var all sync.WaitGroup
	for i := range counts {
		counts[i] = newCounter()
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				counts[i].once(dial, open[i%len(open)], query)
			}
		}()
	}
	all.Wait()
	whole := newCounter()
	for _, each := range counts {
		whole.add(each)
	}
	return whole.report(time.Since(began)), nil
}

// counter is what one goroutine counts.
type counter struct {
	answers, wrong, octets uint64
	errors                 map[string]uint64
	rcodes, statuses       map[int]uint64
	latencies              map[uint64]uint64
}

func newCounter() *counter {
	return &counter{errors: map[string]uint64{}, rcodes: map[int]uint64{}, statuses: map[int]uint64{}, latencies: map[uint64]uint64{}}
}

// once sends one query, over a connection of its own where kept is nil.
func (c *counter) once(dial func(context.Context) (connection, error), kept connection, query []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	began := time.Now()
	used := kept
	if used == nil {
		made, err := dial(ctx)
		if err != nil {
			c.errors[kind(err)]++
			return
		}
		defer made.close()
		used = made
	}
	reply, err := used.exchange(ctx, query)
	var status statusError
	if errors.As(err, &status) {
		c.answers++
		c.statuses[int(status)]++
		return
	}
	if err != nil {
		c.errors[kind(err)]++
		return
	}
	c.answers++
	c.octets += uint64(len(reply))
	c.latencies[rounded(uint64(time.Since(began)))]++
	if !answers(reply, query) {
		c.wrong++
		return
	}
	c.rcodes[int(reply[3]&15)]++
}

func (c *counter) add(other *counter) {
	c.answers += other.answers
	c.wrong += other.wrong
	c.octets += other.octets
	for key, count := range other.errors {
		c.errors[key] += count
	}
	for key, count := range other.rcodes {
		c.rcodes[key] += count
	}
	for key, count := range other.statuses {
		c.statuses[key] += count
	}
	for key, count := range other.latencies {
		c.latencies[key] += count
	}
}

func (c *counter) report(taken time.Duration) *report {
	made := &report{Answers: c.answers, Errors: c.errors, Rcodes: c.rcodes, Statuses: c.statuses, Wrong: c.wrong, Octets: c.octets}
	made.Seconds, made.Latencies = taken.Seconds(), [][2]uint64{}
	for nanoseconds, count := range c.latencies {
		made.Latencies = append(made.Latencies, [2]uint64{nanoseconds, count})
	}
	return made
}

// rounded keeps the highest bits: an error of less than 1 %.
func rounded(nanoseconds uint64) uint64 {
	shift := max(0, int(math.Log2(float64(nanoseconds|1)))-significantBits)
	return nanoseconds >> shift << shift
}

// answers tells whether a message is a reply with the query's id and question.
func answers(reply, query []byte) bool {
	if len(reply) < len(query) || reply[2]&0x80 == 0 || !bytes.Equal(reply[:2], query[:2]) || reply[4] != 0 || reply[5] != 1 {
		return false
	}
	return bytes.EqualFold(reply[headerOctets:len(query)], query[headerOctets:])
}

// kind is what errors are counted by.
func kind(err error) string {
	var timedOut net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timedOut) && timedOut.Timeout():
		return "timeout"
	default:
		return err.Error()
	}
}

// ---- DNS over QUIC ----

type doq struct{ *quic.Conn }

func dialDoQ(ctx context.Context) (connection, error) {
	made, err := quic.DialAddr(ctx, *address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"doq"}}, nil)
	if err != nil {
		return nil, err
	}
	return doq{made}, nil
}

func (c doq) exchange(ctx context.Context, query []byte) ([]byte, error) {
	stream, err := c.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := stream.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := stream.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return nil, err
	}
	if err := stream.Close(); err != nil {
		return nil, err
	}
	reply, err := io.ReadAll(stream)
	if err != nil {
		return nil, err
	}
	if len(reply) < 2 || int(binary.BigEndian.Uint16(reply)) != len(reply)-2 {
		return nil, errors.New("the length before the reply is not its length")
	}
	return reply[2:], nil
}

func (c doq) close() {
	// DOQ_NO_ERROR (RFC 9250 4.3).
	_ = c.CloseWithError(0, "")
}

// ---- DNS over HTTP/3 ----

type doh3 struct {
	transport *http3.Transport
	url       string
}

func dialDoH3(context.Context) (connection, error) {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}
	return doh3{&http3.Transport{TLSClientConfig: config, DisableCompression: true}, "https://" + *address + *path}, nil
}

func (c doh3) exchange(ctx context.Context, query []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(query))
	if err != nil {
		return nil, err
	}
	request.Header.Set("content-type", mediaType)
	request.Header.Set("accept", mediaType)
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = statusError(response.StatusCode)
	}
	return reply, err
}

func (c doh3) close() { _ = c.transport.Close() }
