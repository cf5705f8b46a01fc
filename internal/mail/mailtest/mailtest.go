package mail

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Memory is a Sender for tests: it keeps what it was given, rolled back or not.
// Its zero value is ready to use.
type Memory struct {
	mu       sync.Mutex
	messages []Message
}

// Send implements Sender.
func (s *Memory) Send(_ context.Context, _ pgx.Tx, m Message) error {
	if _, _, err := Compose(m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
	return nil
}

// Sent returns the messages to an address, oldest first; "" is every address.
func (s *Memory) Sent(to string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for _, m := range s.messages {
		if to == "" || m.To == to {
			list = append(list, m)
		}
	}
	return slices.Clone(list)
}
