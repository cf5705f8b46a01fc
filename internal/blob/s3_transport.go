package blob

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// letGo lets go of a request's body when the request is over. A transport may go on
// reading after it returned an error, while the same memory is sent again, or is
// another Put's already.
type letGo struct{ http.RoundTripper }

func (l letGo) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return l.RoundTripper.RoundTrip(r)
	}
	body := &endingBody{ReadCloser: r.Body}
	defer body.end()
	own := *r
	own.Body = body
	return l.RoundTripper.RoundTrip(&own)
}

// endingBody is a body in memory that is empty from a moment on. A transport that
// has not sent all of it then breaks the connection.
type endingBody struct {
	mu    sync.Mutex
	ended bool
	io.ReadCloser
}

func (b *endingBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.EOF
	}
	return b.ReadCloser.Read(p)
}

func (b *endingBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// newTransport makes connections on which nobody may be silent for too long.
// HTTP/2, which a dialer of our own switches off, would share one connection.
func newTransport(silence time.Duration) http.RoundTripper {
	dialer := net.Dialer{Timeout: connectTime}
	return letGo{&http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatient{c, silence}, nil
		},
		TLSHandshakeTimeout: connectTime,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     silence,
		DisableCompression:  true, // the bytes are as they are
	}}
}

const (
	connectTime     = 5 * time.Second
	idleConnections = 64
)

// impatient is a connection that fails when nothing moves on it for a while, in
// neither direction: a Read waits in it all the time that a request is written.
type impatient struct {
	net.Conn
	silence time.Duration
}

func (c *impatient) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write takes a little at a time: each is progress.
func (c *impatient) Write(p []byte) (int, error) {
	written := 0
	for {
		if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+progress)])
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// progress is how many bytes a connection must take within its silence.
const progress = 64 << 10
