package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// None is the store of an installation that has set none: it keeps nothing, and
// every method but Name fails with ErrUnavailable. Reason is a sentence for
// operators.
type None struct{ Reason string }

// Name is "none".
func (None) Name() string { return "none" }

func (n None) err() error { return ErrUnavailable.Because(errors.New(n.Reason)) }

// Put fails.
func (n None) Put(context.Context, string, string, io.Reader) (int64, error) { return 0, n.err() }

// Open fails.
func (n None) Open(context.Context, string) (Object, error) { return nil, n.err() }

// Stat fails.
func (n None) Stat(context.Context, string) (Info, error) { return Info{}, n.err() }

// Move fails.
func (n None) Move(context.Context, string, string) error { return n.err() }

// Delete fails.
func (n None) Delete(context.Context, string) error { return n.err() }

// List fails.
func (n None) List(context.Context, string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) { yield(Info{}, n.err()) }
}

// SweepIncomplete finds nothing.
func (None) SweepIncomplete(context.Context, time.Time) (int, error) { return 0, nil }

// PresignPut fails.
func (n None) PresignPut(context.Context, string, PutTerms) (Request, error) {
	return Request{}, n.err()
}

// Check returns the reason.
func (n None) Check(context.Context) error { return errors.New(n.Reason) }
