// Package mailtest has a mailbox for tests.
package mailtest

import (
	"context"
	"net/url"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/internal/mail"
)

// Memory is a mail.Sender that keeps what it was given, rolled back or not.
// Its zero value is
// ready to use.
type Memory struct {
	mu       sync.Mutex
	messages []mail.Message
}

// Send implements mail.Sender.
func (s *Memory) Send(_ context.Context, _ pgx.Tx, m mail.Message) error {
	c, err := mail.NewComposer(origin(m.Link))
	if err != nil {
		return err
	}
	if _, err := c.Compose(m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
	return nil
}

// origin is the service's URL as a link has it.
func origin(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" {
		return "https://waypost.example"
	}
	return u.Scheme + "://" + u.Host
}

// Sent returns the messages to an address, oldest first; "" is every address.
func (s *Memory) Sent(to string) []mail.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []mail.Message
	for _, m := range s.messages {
		if to == "" || m.To == to {
			list = append(list, m)
		}
	}
	return slices.Clone(list)
}
