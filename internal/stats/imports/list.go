package imports

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
	"github.com/waypost/waypost/internal/stats/calendar"
)

// States of an import. A running one of a process that was killed stays so until the
// site's next.
const (
	importRunning     = "running"
	importDone        = "done"
	importInterrupted = "interrupted"
	importUndone      = "undone"
)

// ErrNoImport says that there is no such import.
var ErrNoImport = fault.Missing("import")

// Imported is one import.
type Imported struct {
	ID, SiteID uuid.UUID
	Format     Format
	Name       string // of the file
	State      string // running, done, interrupted, undoing or undone
	BeganAt    time.Time
	EndedAt    *time.Time
	// Lines were read, and Events of them counted. Of one that was killed the lines of its
	// last seconds are missing.
	Lines, Events int64
	FirstAt       *time.Time // of the events
	LastAt        *time.Time
	run           int64
}

func importedOf(row dbsqlc.Import) Imported {
	return Imported{
		ID: row.ID, SiteID: row.SiteID, Format: Format(row.Format), Name: row.Name, State: row.State, BeganAt: row.BeganAt.UTC(), EndedAt: row.EndedAt,
		Lines: row.Lines, Events: row.Imported, FirstAt: row.FirstAt, LastAt: row.LastAt, run: row.Run,
	}
}

// Imports returns at most limit imports of a site, or of all sites for the nil UUID,
// newest first, behind after or from the newest on.
func (m *Importer) Imports(ctx context.Context, siteID uuid.UUID, after *Imported, limit int) ([]Imported, error) {
	p := dbsqlc.ListImportsParams{SiteID: siteID, BeforeAt: time.Date(calendar.LastYear, 1, 1, 0, 0, 0, 0, time.UTC), BeforeID: uuid.Max, MaxRows: int32(limit)}
	if after != nil {
		p.BeforeAt, p.BeforeID = after.BeganAt, after.ID
	}
	rows, err := m.queries.ListImports(ctx, m.o.DB.Direct(), p)
	if err != nil {
		return nil, db.Translate(err)
	}
	list := make([]Imported, len(rows))
	for i, row := range rows {
		list[i] = importedOf(row)
	}
	return list, nil
}

// FindImport returns an import, or ErrNoImport.
func (m *Importer) FindImport(ctx context.Context, id uuid.UUID) (Imported, error) {
	row, err := m.queries.FindImport(ctx, m.o.DB.Direct(), id)
	if err != nil {
		return Imported{}, db.NotFound(err, ErrNoImport)
	}
	return importedOf(row), nil
}
