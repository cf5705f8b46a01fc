package dbtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// proxied is one connection through a Proxy. Two goroutines copy PostgreSQL's
// messages, and mu orders what they do about a spoiled COMMIT.
type proxied struct {
	p              *Proxy
	client, server net.Conn

	// Of the goroutine that copies requests.
	statements map[string]string // SQL by the name of the prepared statement
	batch      []string          // SQL of what was bound since the last Sync
	executed   int               // how much of that was executed

	mu     sync.Mutex
	status byte // of the last ReadyForQuery
	spoil  *spoiled
	over   chan struct{} // closed when the server has said its last
}

// spoiled is a COMMIT whose answer is being replaced.
type spoiled struct {
	fault     Fault
	commit    message   // what Held keeps back
	completes int       // results to come before that, without it
	answer    []message // what has come
	answered  bool      // to the client; the rest is for nobody
}

var errSpoiled = errors.New("the connection was spoiled")

// message is a protocol message with its type and length.
type message []byte

func readMessage(r io.Reader) (message, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	m := make(message, 1+binary.BigEndian.Uint32(head[1:]))
	copy(m, head)
	_, err := io.ReadFull(r, m[5:])
	return m, err
}

func (m message) kind() byte { return m[0] }

// texts are the first n strings of m's body.
func (m message) texts(n int) []string {
	list := make([]string, n)
	rest := m[5:]
	for i := range list {
		text, after, _ := bytes.Cut(rest, []byte{0})
		list[i], rest = string(text), after
	}
	return list
}

// requests copies what the client sends until one side ends.
func (c *proxied) requests() error {
	// The start-up message has no type.
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.client, head); err != nil {
		return err
	}
	if _, err := c.server.Write(head); err != nil {
		return err
	}
	if _, err := io.CopyN(c.server, c.client, int64(binary.BigEndian.Uint32(head))-4); err != nil {
		return err
	}
	for {
		m, err := readMessage(c.client)
		if err != nil {
			return err
		}
		if err := c.request(m); err != nil {
			return err
		}
	}
}

func (c *proxied) request(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spoil != nil && c.spoil.answered {
		return errSpoiled
	}
	switch m.kind() {
	case 'P':
		names := m.texts(2)
		c.statements[names[0]] = names[1]
	case 'B':
		c.batch = append(c.batch, c.statements[m.texts(2)[1]])
	case 'E':
		c.executed++
	case 'Q':
		if strings.EqualFold(m.texts(1)[0], "commit") {
			return c.commit(m, 0)
		}
	case 'S':
		batch, executed := c.batch, c.executed
		c.batch, c.executed = nil, 0
		if contains(batch, "pg_xact_status") {
			c.p.asked.Add(1)
		}
		if executed > 0 && c.status == 'I' && contains(batch, "waypost.actor_type") && !slices.Contains(batch, "begin") {
			return c.commit(m, executed)
		}
	}
	_, err := c.server.Write(m)
	return err
}

func contains(batch []string, text string) bool {
	return slices.ContainsFunc(batch, func(sql string) bool { return strings.Contains(sql, text) })
}

// commit passes m, which commits, on, unless it is to be spoiled. Before it the
// server gives results that it has not sent yet.
func (c *proxied) commit(m message, results int) error {
	fault, ok := c.p.next()
	if !ok {
		_, err := c.server.Write(m)
		return err
	}
	c.spoil = &spoiled{fault: fault, commit: m, completes: results}
	switch {
	case fault.Fate == Applied:
		_, err := c.server.Write(m)
		return err
	case results > 0:
		_, err := c.server.Write([]byte{'H', 0, 0, 0, 4}) // Flush
		return err
	}
	return c.finish()
}

// answers copies what the server sends until one side ends.
func (c *proxied) answers() {
	defer close(c.over)
	defer c.client.Close()
	for {
		m, err := readMessage(c.server)
		if err != nil {
			return
		}
		if err := c.answer(m); err != nil {
			return
		}
	}
}

func (c *proxied) answer(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.kind() == 'Z' {
		c.status = m[5]
	}
	s := c.spoil
	switch {
	case s == nil:
		_, err := c.client.Write(m)
		return err
	case s.answered:
		if m.kind() == 'Z' { // that of a COMMIT that was held
			return errSpoiled
		}
		return nil
	}
	if m.kind() != 'Z' {
		s.answer = append(s.answer, m)
	}
	if m.kind() == 'C' || m.kind() == 'E' {
		s.completes--
	}
	if m.kind() == 'Z' || s.fault.Fate != Applied && s.completes == 0 {
		return c.finish()
	}
	return nil
}

// finish answers the client as the fault says, and decides what is left.
func (c *proxied) finish() error {
	s := c.spoil
	s.answered = true
	switch s.fault.Fate {
	case Held:
		c.p.hold(c)
	case Dropped:
		defer c.server.Close()
	}
	switch s.fault.Answer {
	case RST:
		_ = c.client.(*net.TCPConn).SetLinger(0)
		fallthrough
	case FIN:
		return c.client.Close()
	}
	fatal := strings.HasPrefix(s.fault.Answer, "57P")
	severity := "ERROR"
	if fatal {
		severity = "FATAL"
	}
	var out []byte
	for i, m := range s.answer {
		// A COMMIT of its own is completed by its last message.
		last := m.kind() == 'C' && !slices.ContainsFunc(s.answer[i+1:], func(m message) bool { return m.kind() == 'C' })
		if last && (s.fault.Early || s.commit.kind() == 'Q') {
			continue
		}
		out = append(out, m...)
	}
	out, err := (&pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: s.fault.Answer, Message: "spoiled by a test"}).Encode(out)
	if err != nil {
		return err
	}
	if !fatal {
		out = append(out, 'Z', 0, 0, 0, 5, 'I')
	}
	if _, err := c.client.Write(out); err != nil {
		return err
	}
	if fatal {
		return c.client.Close()
	}
	if s.fault.Fate == Applied {
		c.spoil = nil
	}
	return nil
}

func (c *proxied) isHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoil != nil && c.spoil.fault.Fate == Held
}

// release lets a held COMMIT through.
func (c *proxied) release() {
	c.mu.Lock()
	_, err := c.server.Write(c.spoil.commit)
	c.mu.Unlock()
	if err == nil {
		<-c.over
	}
}

func (c *proxied) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}
