package audit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/db/dbsqlc"
	"github.com/waypost/waypost/internal/fault"
)

// storedLevel is the lowest level of the tree whose nodes are stored. Those below are
// computed from up to blockSize entries.
const (
	storedLevel = 8
	blockSize   = 1 << storedLevel
)

// errNode says that a node of the tree can't be had, because it or entries under it
// are missing.
var errNode = errors.New("audit: a node of the tree is missing")

// frontier is a Merkle tree that grows: the roots of its complete subtrees, largest
// first. Its size in memory is the logarithm of its number of leaves.
type frontier struct {
	roots  []tlog.Hash
	leaves int64
}

func (f *frontier) add(leaf tlog.Hash) {
	f.roots = append(f.roots, leaf)
	for n := f.leaves; n&1 == 1; n >>= 1 {
		last := len(f.roots) - 1
		f.roots[last-1] = tlog.NodeHash(f.roots[last-1], f.roots[last])
		f.roots = f.roots[:last]
	}
	f.leaves++
}

// root is that of the tree so far, which must not be empty.
func (f *frontier) root() tlog.Hash {
	last := len(f.roots) - 1
	h := f.roots[last]
	for i := last - 1; i >= 0; i-- {
		h = tlog.NodeHash(f.roots[i], h)
	}
	return h
}

// frontierAt is the tree of the first n entries, from its stored nodes. It returns
// errNode when one is missing.
func frontierAt(r tlog.HashReader, n int64) (frontier, error) {
	f := frontier{leaves: n}
	if n == 0 {
		return f, nil
	}
	var indexes []int64
	for level, from := 62, int64(0); level >= 0; level-- {
		if size := int64(1) << level; n&size != 0 {
			indexes = append(indexes, tlog.StoredHashIndex(level, from>>level))
			from += size
		}
	}
	var err error
	f.roots, err = r.ReadHashes(indexes)
	return f, err
}

// nodes reads the tree of q's database.
func nodes(ctx context.Context, q dbsqlc.DBTX) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		stored, err := storedNodes(ctx, q, indexes)
		if err != nil {
			return nil, err
		}
		blocks := make(map[int64][]tlog.Hash)
		hashes := make([]tlog.Hash, 0, len(indexes))
		for _, index := range indexes {
			level, n := tlog.SplitStoredHashIndex(index)
			if level >= storedLevel {
				h, found := stored[index]
				if !found {
					return nil, errNode
				}
				hashes = append(hashes, h)
				continue
			}
			block := n << level / blockSize
			if _, read := blocks[block]; !read {
				if blocks[block], err = leaves(ctx, q, block); err != nil {
					return nil, err
				}
			}
			from := n<<level - block*blockSize
			to := from + 1<<level
			if to > int64(len(blocks[block])) {
				return nil, errNode
			}
			hashes = append(hashes, subtree(blocks[block][from:to]))
		}
		return hashes, nil
	})
}

// subtree is the root of a complete tree.
func subtree(leaves []tlog.Hash) tlog.Hash {
	var f frontier
	for _, h := range leaves {
		f.add(h)
	}
	return f.root()
}

func storedNodes(ctx context.Context, q dbsqlc.DBTX, indexes []int64) (map[int64]tlog.Hash, error) {
	var levels []int16
	var places []int64
	for _, index := range indexes {
		if level, n := tlog.SplitStoredHashIndex(index); level >= storedLevel {
			levels, places = append(levels, int16(level)), append(places, n)
		}
	}
	if len(levels) == 0 {
		return nil, nil
	}
	rows, err := dbsqlc.New().ListAuditNodes(ctx, q, levels, places)
	if err != nil {
		return nil, fmt.Errorf("audit: read the tree: %w", db.Translate(err))
	}
	found := make(map[int64]tlog.Hash, len(rows))
	for _, row := range rows {
		if len(row.Hash) != tlog.HashSize {
			return nil, errNode
		}
		found[tlog.StoredHashIndex(int(row.Level), row.Idx)] = tlog.Hash(row.Hash)
	}
	return found, nil
}

// leaves are the hashes of a block's entries, up to the first that is missing.
func leaves(ctx context.Context, q dbsqlc.DBTX, block int64) ([]tlog.Hash, error) {
	rows, err := dbsqlc.New().ListAuditHashes(ctx, q, block*blockSize+1, (block+1)*blockSize)
	if err != nil {
		return nil, fmt.Errorf("audit: read hashes: %w", db.Translate(err))
	}
	list := make([]tlog.Hash, 0, len(rows))
	for i, row := range rows {
		if row.Seq != block*blockSize+1+int64(i) || len(row.Hash) != tlog.HashSize {
			break
		}
		list = append(list, tlog.Hash(row.Hash))
	}
	return list, nil
}

// Proof shows that an entry is part of the tree of the first Size entries. Hashes are
// in hex.
type Proof struct {
	Seq, Size int64
	Leaf      string   // the entry's hash
	Hashes    []string // the path of RFC 6962 section 2.1.1, from the leaf up
	Root      string
}

// Consistency shows that the tree of the first Old entries is the beginning of that of
// the first New.
type Consistency struct {
	Old, New int64
	Hashes   []string // of RFC 6962 section 2.1.2, in hex
}

// Proof returns the proof for an entry in the tree of the first size entries, 0 for
// the size of the newest checkpoint. It returns ErrEntry, or a validation fault for a
// size that the entry is not part of, that the log has not reached, or that has no
// default.
func (s *Service) Proof(ctx context.Context, seq, size int64) (Proof, error) {
	p := Proof{Seq: seq}
	err := s.o.DB.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if p.Size, err = s.sizeOrNewest(ctx, tx, size, "query.size"); err != nil {
			return err
		}
		entry, err := s.queries.FindAuditEntry(ctx, tx, seq)
		if err != nil {
			return db.NotFound(err, ErrEntry)
		}
		if seq < 1 || seq > p.Size {
			return invalid("query.size", "The tree of that size does not have the entry yet.")
		}
		p.Leaf = hex.EncodeToString(entry.Hash)
		hashes, err := tlog.ProveRecord(p.Size, seq-1, nodes(ctx, tx))
		if err != nil {
			return fmt.Errorf("audit: prove entry %d: %w", seq, err)
		}
		p.Hashes = inHex(hashes)
		root, err := tlog.TreeHash(p.Size, nodes(ctx, tx))
		p.Root = hex.EncodeToString(root[:])
		return err
	})
	return p, err
}

// Consistency returns the proof that the tree of the first old entries is the
// beginning of that of the first size, 0 for the size of the newest checkpoint. It
// returns a validation fault for sizes that are not in order, that the log has not
// reached, or that have no default.
func (s *Service) Consistency(ctx context.Context, old, size int64) (Consistency, error) {
	c := Consistency{Old: old}
	err := s.o.DB.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if c.New, err = s.sizeOrNewest(ctx, tx, size, "query.new"); err != nil {
			return err
		}
		if old < 1 || old > c.New {
			return invalid("query.old", fmt.Sprintf("It must be 1 to %d, the new size.", c.New))
		}
		hashes, err := tlog.ProveTree(c.New, old, nodes(ctx, tx))
		if err != nil {
			return fmt.Errorf("audit: prove consistency of %d with %d: %w", c.New, old, err)
		}
		c.Hashes = inHex(hashes)
		return nil
	})
	return c, err
}

// sizeOrNewest checks a tree's size, which a parameter gave, and replaces 0.
func (s *Service) sizeOrNewest(ctx context.Context, tx pgx.Tx, size int64, parameter string) (int64, error) {
	head, err := s.queries.FindAuditHead(ctx, tx)
	if err != nil {
		return 0, fmt.Errorf("audit: read the head: %w", err)
	}
	if size == 0 {
		newest, err := s.queries.FindNewestCheckpoint(ctx, tx)
		if err != nil {
			return 0, db.NotFound(err, invalid(parameter, "There is no checkpoint yet whose size could be taken: give one."))
		}
		size = newest.Size
	}
	if size < 1 || size > head.Seq {
		return 0, invalid(parameter, fmt.Sprintf("The log has %d entries; the size must be from 1 to that.", head.Seq))
	}
	return size, nil
}

func invalid(parameter, sentence string) *fault.Error {
	return fault.Validation(map[string]string{parameter: sentence})
}

func inHex(hashes []tlog.Hash) []string {
	list := make([]string, 0, len(hashes))
	for _, h := range hashes {
		list = append(list, hex.EncodeToString(h[:]))
	}
	return list
}
