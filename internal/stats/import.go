package stats

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/site"
)

// ErrSuperseded says that a newer import of the same site has begun, so that
// this one stopped.
var ErrSuperseded = fault.New(fault.Conflict, "import_superseded", "A newer import of this site has begun; this one stopped. Run it again to import the rest.")

const (
	// progressLines is how many lines at most pass without a word of progress.
	progressLines = 20_000
	// importBatch is how many lines with visits at most share a transaction.
	importBatch = 4000
	// batchBytes is how many bytes of lines at most share a transaction.
	batchBytes = 8 << 20
)

// ImporterOptions configure NewImporter.
type ImporterOptions struct {
	DB      *db.DB        // mandatory
	Secrets ImportSecrets // mandatory
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Random gives the salts; default crypto/rand.
	Random io.Reader
	// Country returns the ISO 3166-1 alpha-2 code of an address's country, "" where it
	// is unknown. With nil, all countries are unknown.
	Country func(netip.Addr) string
	// SessionGap is the longest time between two events of one session; default
	// 30 minutes, as documented. Other values only serve to show that tests notice them.
	SessionGap time.Duration
}

func (o ImporterOptions) validate() error {
	if o.DB == nil || o.Secrets == nil {
		return errors.New("stats: ImporterOptions need DB and Secrets")
	}
	return nil
}

func (o ImporterOptions) withDefaults() ImporterOptions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Country == nil {
		o.Country = func(netip.Addr) string { return "" }
	}
	o.SessionGap = cmp.Or(o.SessionGap, defaultSessionGap)
	return o
}

// Progress is how far an import is. What is imported is committed.
type Progress struct {
	Bytes    int64 // of the file
	Lines    int
	Imported int
}

// Report is what became of the lines of a file.
type Report struct {
	Progress
	// Skipped counts the other lines by reason.
	Skipped map[Skip]int
}

// Importer adds the traffic in files to a site's.
type Importer struct {
	o     ImporterOptions
	write recorder
}

// NewImporter makes an Importer.
func NewImporter(o ImporterOptions) (*Importer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	write, err := newRecorder(o.DB, o.Secrets, o.Now, o.Random, o.SessionGap)
	return &Importer{o: o, write: write}, err
}

// Import reads r to its end and counts each line once: a line is known by its
// SHA-256 and its ordinal among equal lines of the file, so that a file, or the
// same file after it has grown or after an import was broken off, can be
// imported again. Memory does not grow with the file. progress, which may be nil,
// is called from time to time, never twice at once.
//
// With an error comes the report of what is known to be committed. Errors: a fault
// of kind Invalid for an unknown format, ErrForgotten, ErrSuperseded, kind
// Unavailable while the database is away, and r's own.
func (m *Importer) Import(ctx context.Context, s site.Site, r io.Reader, format Format, progress func(Progress)) (Report, error) {
	switch format {
	case Combined, Common, NDJSON:
	default:
		return Report{}, fault.Validation(map[string]string{"format": "One of combined, common, ndjson."})
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	run := &importRun{Importer: m, site: s, progress: progress, report: Report{Skipped: make(map[Skip]int)}}
	err := m.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		run.number, err = m.write.sessions.queries.BeginSiteImport(ctx, tx, s.ID)
		return err
	})
	if err != nil {
		return run.report, err
	}
	parser := lineParser{site: s, format: format, clients: m.write.clients, now: m.o.Now, country: m.o.Country}
	err = run.consume(ctx, newLineReader(r), parser)
	return run.report, err
}

// importRun is one import. Runs of a site have increasing numbers, and only the
// newest writes.
type importRun struct {
	*Importer
	site   site.Site
	number int64

	mu       sync.Mutex // of what follows
	progress func(Progress)
	report   Report
}

// lineBatch is what one transaction takes in.
type lineBatch struct {
	bytes   int64
	lines   int
	skipped map[Skip]int
	hashes  [][sha256.Size]byte // of the lines with visits
	visits  []visit
}

// consume lets lines be parsed while others are being stored, by lanes.
func (run *importRun) consume(ctx context.Context, lines lineReader, parser lineParser) error {
	workers, ctx := errgroup.WithContext(ctx)
	reader := batchReader{lines: lines, parser: parser}
	for lane := range reader.lanes {
		batches := make(chan lineBatch)
		reader.lanes[lane].out = batches
		workers.Go(func() error {
			for {
				select {
				case b, more := <-batches:
					if !more {
						return nil
					}
					if err := run.store(ctx, b); err != nil {
						return err
					}
				case <-ctx.Done(): // the reader may hang in a pipe
					return ctx.Err()
				}
			}
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- reader.read(ctx) }()
	if err := workers.Wait(); err != nil {
		return err
	}
	return <-ended
}

// store commits a batch: its lines and their events, both or neither.
func (run *importRun) store(ctx context.Context, b lineBatch) error {
	duplicates := 0
	if len(b.visits) > 0 {
		events, err := run.write.place(ctx, run.site, b.visits)
		if err != nil {
			return err
		}
		err = run.o.DB.InIndexTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
			fresh, err := run.claim(ctx, tx, b.hashes, events)
			if err != nil {
				return err
			}
			duplicates = len(events) - len(fresh)
			return run.write.sessions.write(ctx, tx, fresh)
		})
		if err != nil {
			return err
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.report.Bytes += b.bytes
	run.report.Lines += b.lines
	run.report.Imported += len(b.visits) - duplicates
	for reason, n := range maps.All(b.skipped) {
		run.report.Skipped[reason] += n
	}
	if duplicates > 0 {
		run.report.Skipped[SkipDuplicate] += duplicates
	}
	run.progress(run.report.Progress)
	return nil
}
