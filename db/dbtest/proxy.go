package dbtest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Fate is what a Proxy does with a COMMIT.
type Fate string

// The fates.
const (
	Applied Fate = "applied" // PostgreSQL carries it out before anything is answered
	Held    Fate = "held"    // answered before PostgreSQL gets it, which is with Release
	Dropped Fate = "dropped" // answered, and PostgreSQL never gets it
)

// What a Fault answers instead of a SQLSTATE.
const (
	FIN = "FIN" // nothing: the connection is closed
	RST = "RST" // nothing: the connection is reset
)

// Fault is how one COMMIT is spoiled.
type Fault struct {
	Fate Fate
	// Answer is FIN, RST or the SQLSTATE of an error; one of class 57P ends the
	// connection, as PostgreSQL's own do.
	Answer string
	// Early puts the error in the place of the completion of the statement, where one
	// is committed together with its COMMIT, and not behind it.
	Early bool
}

// Proxy stands between a pool and a test's server and spoils COMMITs: those sent as
// such, and the end of implicit transactions that are opened for a principal.
type Proxy struct {
	listener net.Listener
	server   *pgconn.Config
	url      string
	asked    atomic.Int64

	mu      sync.Mutex
	closed  bool
	policy  func() (Fault, bool)
	held    []*proxied
	clients map[*proxied]bool
	running sync.WaitGroup
}

// NewProxy starts a proxy before the server of url, which lets everything through. It
// ends with the test.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	server, err := pgconn.ParseConfig(to)
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	u := url.URL{Scheme: "postgres", User: url.User(server.User), Host: l.Addr().String(), Path: "/" + server.Database, RawQuery: "sslmode=disable"}
	p := &Proxy{listener: l, server: server, url: u.String(), clients: make(map[*proxied]bool), policy: func() (Fault, bool) { return Fault{}, false }}
	p.running.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// URL is the proxy's connection string.
func (p *Proxy) URL() string { return p.url }

// Spoil has policy asked about every COMMIT from now on; false lets it through. It is
// called by several goroutines at once.
func (p *Proxy) Spoil(policy func() (Fault, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policy = policy
}

// SpoilNext spoils the next COMMIT alone.
func (p *Proxy) SpoilNext(f Fault) {
	var spoiled atomic.Bool
	p.Spoil(func() (Fault, bool) { return f, !spoiled.Swap(true) })
}

// Asked returns how often the status of a transaction was asked for.
func (p *Proxy) Asked() int { return int(p.asked.Load()) }

// Release hands the COMMITs that are held to PostgreSQL and returns when it has
// answered them.
func (p *Proxy) Release() {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	for _, c := range held {
		c.release()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	network, address := pgconn.NetworkAddress(p.server.Host, p.server.Port)
	server, err := (&net.Dialer{}).DialContext(context.Background(), network, address)
	if err != nil {
		return
	}
	c := &proxied{p: p, client: client, server: server, statements: make(map[string]string), over: make(chan struct{})}
	if !p.add(c) {
		c.close()
		return
	}
	defer p.remove(c)
	var answers sync.WaitGroup
	answers.Go(c.answers)
	_ = c.requests()
	_ = client.Close()
	if !c.isHeld() {
		_ = server.Close()
	}
	answers.Wait()
	_ = server.Close()
}

func (p *Proxy) add(c *proxied) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c] = true
	return !p.closed
}

func (p *Proxy) remove(c *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, c)
}

// Close ends it and all connections through it, as if the server were gone.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	all := make([]*proxied, 0, len(p.clients))
	for c := range p.clients {
		all = append(all, c)
	}
	p.mu.Unlock()
	err := p.listener.Close()
	for _, c := range all {
		c.close()
	}
	p.running.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		panic(err)
	}
}

func (p *Proxy) next() (Fault, bool) {
	p.mu.Lock()
	policy := p.policy
	p.mu.Unlock()
	return policy()
}

func (p *Proxy) hold(c *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, c)
}
