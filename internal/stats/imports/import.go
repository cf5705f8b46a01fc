// Package imports stores the lines of access logs and NDJSON files as events, each of them
// once, and takes them away again.
package imports

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/identity"
	"github.com/waypost/waypost/internal/seal"
	"github.com/waypost/waypost/internal/site"
	"github.com/waypost/waypost/internal/stats/calendar"
	"github.com/waypost/waypost/internal/stats/client"
	"github.com/waypost/waypost/internal/stats/drop"
	"github.com/waypost/waypost/internal/stats/hit"
	"github.com/waypost/waypost/internal/stats/session"
	"github.com/waypost/waypost/internal/stats/visitor"
	"github.com/waypost/waypost/internal/text"
)

// ErrSuperseded says that a newer import of the same site has begun, so that
// this one stopped.
var ErrSuperseded = fault.New(fault.Conflict, "import_superseded", "A newer import of this site has begun; this one stopped. Run it again to import the rest.")

const (
	// progressLines is how many lines at most pass without a word of progress.
	progressLines = 20_000
	// maxVisits is how many lines with visits at most share a transaction.
	maxVisits = 4000
	// batchBytes is how many bytes of lines at most share a transaction.
	batchBytes = 8 << 20
	// endTimeout bounds the note of how an import ended.
	endTimeout = 5 * time.Second
	// firstBatch is importBatch of a lane's first transaction.
	firstBatch = 500
)

// Options configure NewImporter.
type Options struct {
	DB *db.DB // mandatory
	// Keys seals import secrets: seal.New makes it for SealPurpose. Without it, nothing can
	// be imported.
	Keys *seal.Keyring
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

func (o Options) validate() error {
	if o.DB == nil {
		return errors.New("stats: ImporterOptions need DB")
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Country == nil {
		o.Country = func(netip.Addr) string { return "" }
	}
	o.SessionGap = cmp.Or(o.SessionGap, session.DefaultGap)
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
	// ID is the import's, for Undo; the nil UUID when none was begun.
	ID uuid.UUID
	// Skipped counts the other lines by reason.
	Skipped map[Skip]int
}

// Importer adds the traffic in files to a site's.
type Importer struct {
	o        Options
	queries  *dbsqlc.Queries
	clients  *client.Parser
	days     *visitor.Book
	sessions session.Store
}

// New makes an Importer.
func New(o Options) (*Importer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	clients, err := client.NewParser()
	if err != nil {
		return nil, err
	}
	queries := dbsqlc.New()
	return &Importer{
		o: o, queries: queries, clients: clients, sessions: session.NewStore(queries, o.SessionGap),
		days: visitor.NewBook(visitor.Options{DB: o.DB, Keys: o.Keys, Now: o.Now, Random: o.Random}),
	}, nil
}

// Settings say how a file is to be read.
type Settings struct {
	Format Format
	// Name is the file's, for Imports.
	Name string
	// NewVisitors makes other secrets for months whose secret was destroyed.
	NewVisitors bool
	// Progress, which may be nil, is called from time to time, never twice at once.
	Progress func(Progress)
}

// Import is Load with fewer settings.
func (m *Importer) Import(ctx context.Context, s site.Site, r io.Reader, format Format, progress func(Progress)) (Report, error) {
	return m.Load(ctx, s, r, Settings{Format: format, Progress: progress})
}

// Load reads r, which may be compressed with gzip, to its end and counts each line once:
// a line is known by its event's id, or by its SHA-256 and its ordinal among equal lines
// of the file, so that a file, or the same file after it has grown or after an import was
// broken off, can be imported again. Memory does not grow with the file.
//
// With an error comes the report of what is known to be committed. Errors: a fault
// of kind Invalid for an unknown format or, before anything is stored, for a file that is
// not of that format; ErrForgotten, ErrSuperseded, kind Unavailable while the database is
// away, and r's own.
func (m *Importer) Load(ctx context.Context, s site.Site, r io.Reader, o Settings) (Report, error) {
	switch o.Format {
	case Combined, Common, NDJSON:
	default:
		return Report{}, fault.Validation(map[string]string{"format": "One of combined, common, ndjson."})
	}
	if m.o.Keys == nil {
		return Report{}, visitor.ErrNoSecretKey
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	file := &countedReader{r: r}
	content, packed, err := unpacked(file)
	if err != nil {
		return Report{}, err
	}
	lines := newLineReader(content)
	if err := lines.sample(o.Format); err != nil {
		return Report{}, err
	}
	run := &run{Importer: m, site: s, settings: o, report: Report{Skipped: make(map[Skip]int)}}
	if packed {
		run.file = file
	}
	if err := run.begin(ctx); err != nil {
		return run.report, err
	}
	err = run.consume(ctx, lines, lineParser{site: s, format: o.Format, clients: m.clients, now: m.o.Now, country: m.o.Country})
	return run.report, errors.Join(err, run.end(ctx, err))
}

// run is one import. Runs of a site have increasing numbers, and only the
// newest writes.
type run struct {
	*Importer
	site     site.Site
	settings Settings
	number   int64
	file     *countedReader // when it is compressed

	mu     sync.Mutex // of what follows
	report Report
}

// begin takes the site over from an import that may be running.
func (run *run) begin(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	queries := run.queries
	err = run.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if run.number, err = queries.BeginSiteImport(ctx, tx, run.site.ID); err != nil {
			return err
		}
		if err := queries.InterruptImports(ctx, tx, run.site.ID); err != nil {
			return err
		}
		return queries.InsertImport(ctx, tx, dbsqlc.InsertImportParams{
			SiteID: run.site.ID, Run: run.number, ID: id, Format: string(run.settings.Format), Name: text.MakeStorable(run.settings.Name, "?"), BeganAt: run.o.Now(),
		})
	})
	if err == nil {
		run.report.ID = id
	}
	return err
}

// end notes how the import ended, also when its caller went away.
func (run *run) end(ctx context.Context, failed error) error {
	state := importDone
	if failed != nil {
		state = importInterrupted
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	now := run.o.Now()
	err := run.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return run.queries.EndImport(ctx, tx, dbsqlc.EndImportParams{
			State: state, EndedAt: &now, Lines: int64(run.report.Lines), SiteID: run.site.ID, Run: run.number, FormerState: importRunning,
		})
	})
	if failed != nil {
		return nil // which says enough
	}
	return err
}

// lineBatch is what one transaction takes in.
type lineBatch struct {
	bytes    int64
	lines    int
	skipped  map[Skip]int
	lineKeys []lineKey // of the lines with visits
	visits   []hit.Visit
}

// consume lets lines be parsed while others are being stored, by lanes.
func (run *run) consume(ctx context.Context, lines *lineReader, parser lineParser) error {
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
func (run *run) store(ctx context.Context, b lineBatch) error {
	imported, tooLate := 0, 0
	if len(b.visits) > 0 {
		var err error
		const attempts = 3 // while raw data of its days goes
		for range attempts {
			if imported, tooLate, err = run.storeVisits(ctx, b); !errors.Is(err, session.ErrTrimmed) {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.report.Bytes += b.bytes; run.file != nil {
		run.report.Bytes = run.file.n.Load()
	}
	run.report.Lines += b.lines
	run.report.Imported += imported
	for reason, n := range maps.All(b.skipped) {
		run.report.Skipped[reason] += n
	}
	if tooLate > 0 {
		run.report.Skipped[SkipTooLate] += tooLate
	}
	if duplicates := len(b.visits) - imported - tooLate; duplicates > 0 {
		run.report.Skipped[SkipDuplicate] += duplicates
	}
	run.settings.Progress(run.report.Progress)
	return nil
}

// storeVisits returns how many lines were new, and how many come too late for their day.
func (run *run) storeVisits(ctx context.Context, b lineBatch) (imported, tooLate int, err error) {
	keys, events, err := run.place(ctx, b)
	if err != nil {
		return 0, 0, err
	}
	tooLate = len(b.visits) - len(events)
	queries := run.queries
	err = run.o.DB.InIndexTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		fresh, err := run.claim(ctx, tx, keys, events)
		if err != nil {
			return err
		}
		imported = len(fresh)
		if _, err := run.sessions.Write(ctx, tx, fresh); err != nil {
			return err
		}
		if tooLate > 0 {
			today := calendar.DateOf(run.o.Now().In(run.site.Zone))
			if err := drop.Add(ctx, tx, queries, map[drop.Key]int64{{Site: run.site.ID, Day: today, Reason: drop.TooLate}: int64(tooLate)}); err != nil {
				return err
			}
		}
		p := dbsqlc.AddToImportParams{Lines: int64(b.lines), Imported: int64(imported), SiteID: run.site.ID, Run: run.number}
		for i := range fresh {
			at := &fresh[i].At
			if p.FirstAt == nil || at.Before(*p.FirstAt) {
				p.FirstAt = at
			}
			if p.LastAt == nil || at.After(*p.LastAt) {
				p.LastAt = at
			}
		}
		return queries.AddToImport(ctx, tx, p) // the row that both lanes change, so last
	})
	return imported, tooLate, err
}

// place gives the visits of a batch their site days and visitors, but those whose raw
// data would be gone.
func (run *run) place(ctx context.Context, b lineBatch) ([]lineKey, []session.Event, error) {
	events, places, err := run.days.PlaceImported(ctx, run.site, b.visits, run.settings.NewVisitors)
	if err != nil {
		return nil, nil, err
	}
	keys := make([]lineKey, len(places))
	for i, at := range places {
		keys[i], events[i].ImportRun = b.lineKeys[at], run.number
	}
	return keys, events, nil
}

// Forget destroys a site's import secrets: from then on nobody can tell which visitor of
// an imported day an address was, and lines of these months are refused, unless
// ImportSettings.NewVisitors. It returns site.ErrNoSite.
func (m *Importer) Forget(ctx context.Context, siteID uuid.UUID) error {
	return m.days.Forget(ctx, siteID)
}
