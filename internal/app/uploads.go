package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/upload"
)

func (s *Services) openUploads(ctx context.Context, o Options) error {
	c := o.Config
	store, stores, err := blob.Configured(c.Uploads)
	if err != nil {
		return err
	}
	if none, ok := store.(blob.None); ok {
		o.Logger.WarnContext(ctx, none.Reason)
	}
	places, each := 0, 0 // as package upload has them
	if store.Name() == config.BackendS3 {
		places, each = bucketPlaces, bucketPlacesEach
	}
	s.Uploads, err = upload.New(ctx, upload.Options{
		Places: places, PlacesEach: each,
		DB: o.Areas.Requests, BackgroundDB: o.Areas.Background, Store: store, Stores: stores, Jobs: s.Queue, BaseURL: baseURL(c),
		Limit: int64(c.Uploads.Limit), Quota: int64(c.Uploads.Quota), Types: c.Uploads.Types,
		SecretKey: []byte(c.SecretKey), PreviousSecretKey: []byte(c.SecretKeyPrevious), Logger: o.Logger,
	})
	if err == nil {
		s.closers.add("uploads", within(o.Config.ShutdownTimeout, s.Uploads.Close))
	}
	return err
}

// A bucket takes files in parts, of which each upload has one of 5 MiB in memory.
const (
	bucketPlaces     = 64
	bucketPlacesEach = 32
)

const (
	// storageAsked is how long the storage's state is believed, storageTime how long it
	// may take to tell it.
	storageAsked = 10 * time.Second
	storageTime  = 10 * time.Second
)

// storageState is what readiness tells about the storage of files. It is asked in the
// background, so that one that hangs delays nobody; and it is no condition, for all but
// files works without it.
type storageState struct {
	check  func(context.Context) error
	logger *slog.Logger

	mu     sync.Mutex
	asking bool
	asked  time.Time
	state  string
}

// newStorageState asks for the first time at once, so that the log has a wrong
// configuration soon after the start.
func newStorageState(ctx context.Context, s *upload.Service, logger *slog.Logger) *storageState {
	state := &storageState{check: s.Check, logger: logger}
	if s.Stores() == 0 {
		state.state, state.asked = "not configured", time.Now().AddDate(100, 0, 0) // nothing to ask
		return state
	}
	state.tell(ctx)
	return state
}

// tell returns what was learned last, and asks again when that is old.
func (s *storageState) tell(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asking && time.Since(s.asked) > storageAsked {
		s.asking = true
		go s.ask(context.WithoutCancel(ctx))
	}
	if s.state == "" {
		return "unknown"
	}
	return s.state
}

// ask looks how the storage is, and logs when that changes.
func (s *storageState) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storageTime)
	defer cancel()
	state := "ok"
	err := s.check(ctx)
	if err != nil {
		state = "failed"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.state != state:
		s.logger.ErrorContext(ctx, "the storage of files does not work; uploads and downloads are answered with 503", "error", err)
	case err == nil && s.state == "failed":
		s.logger.InfoContext(ctx, "the storage of files works again")
	}
	s.asking, s.asked, s.state = false, time.Now(), state
}
