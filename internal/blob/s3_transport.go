package blob

import (
	"context"
	"net"
	"net/http"
	"time"
)

// newTransport makes connections on which nobody may be silent for too long.
// HTTP/2, which a dialer of our own switches off, would share one connection.
func newTransport(silence time.Duration) *http.Transport {
	dialer := net.Dialer{Timeout: connectTime}
	return &http.Transport{
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
	}
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
