package app

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// closers are cleanups in the order of what they clean up; run drains them in
// reverse.
type closers []closer

type closer struct {
	name string
	fn   func() error
}

func (c *closers) add(name string, fn func() error) { *c = append(*c, closer{name, fn}) }

func (c *closers) run() error {
	var errs []error
	for len(*c) > 0 {
		last := (*c)[len(*c)-1]
		*c = (*c)[:len(*c)-1]
		if err := last.fn(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}

// within makes a cleanup of a stop that takes a deadline.
func within(timeout time.Duration, stop func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return stop(ctx)
	}
}
