package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/identity"
)

// Export writes the entries from fromSeq on to w, oldest first, each in a line of
// JSON, and returns how many. Then it writes a note that this was done, which is an
// entry of its own behind them. It returns a validation fault when fromSeq is negative.
func (s *Service) Export(ctx context.Context, fromSeq int64, w io.Writer) (int64, error) {
	if fromSeq < 0 {
		return 0, invalid("query.from_seq", "It must be 1 or more.")
	}
	from := max(fromSeq, 1)
	to, err := s.copyAll(ctx, from, w)
	if err != nil {
		return max(to-from+1, 0), err
	}
	err = s.o.DB.InTx(ctx, identity.FromContext(ctx), func(ctx context.Context, tx pgx.Tx) error {
		return Note(ctx, tx, "", "", map[string]any{"what": "export", "from_seq": from, "to_seq": to})
	})
	if err != nil {
		return max(to-from+1, 0), fmt.Errorf("audit: export: %w", err)
	}
	return max(to-from+1, 0), nil
}

// copyAll writes all entries from a seq on, and returns the last one. The connection
// is not held while the reader is slow. Entries may be emptied meanwhile: the notes
// that say so are then among those that it writes.
func (s *Service) copyAll(ctx context.Context, from int64, w io.Writer) (int64, error) {
	for {
		if _, err := s.Seal(ctx); err != nil {
			return from - 1, err
		}
		head, err := s.queries.FindAuditHead(ctx, s.o.DB.Direct())
		if err != nil {
			return from - 1, fmt.Errorf("audit: export: %w", db.Translate(err))
		}
		last, again, err := s.copyTo(ctx, from, head.LastSeq, w)
		if err != nil || !again {
			return last, err
		}
		from = last + 1
	}
}

// copyTo writes the entries from from to to, and reports whether any was emptied.
func (s *Service) copyTo(ctx context.Context, from, to int64, w io.Writer) (last int64, anyEmptied bool, err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	last = from - 1
	for {
		entries, err := s.queries.ListAuditEntries(ctx, s.o.DB.Direct(), last+1, to, readAtOnce)
		if err != nil {
			return last, anyEmptied, fmt.Errorf("audit: export: %w", db.Translate(err))
		}
		if len(entries) == 0 {
			return last, anyEmptied, out.Flush()
		}
		for i := range entries {
			anyEmptied = anyEmptied || emptied(&entries[i])
			if err := lines.Encode(entryOf(entries[i])); err != nil {
				return last, anyEmptied, err
			}
			last = entries[i].Seq
		}
	}
}
