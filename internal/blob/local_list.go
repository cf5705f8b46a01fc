package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"
)

// List walks the directories in the order of their keys.
func (l *Local) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		dir, _ := path.Split(prefix)
		l.walk(ctx, path.Clean(dir), prefix, yield)
	}
}

// walk gives what is below dir and begins with prefix, and reports whether to go on.
func (l *Local) walk(ctx context.Context, dir, prefix string, yield func(Info, error) bool) bool {
	names, err := l.names(dir)
	if err != nil {
		yield(Info{}, err)
		return false
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			yield(Info{}, err)
			return false
		}
		key, below := path.Join(dir, name), strings.HasSuffix(name, "/")
		if below {
			key += "/"
		}
		switch {
		case below && (strings.HasPrefix(key, prefix) || strings.HasPrefix(prefix, key)):
			if !l.walk(ctx, path.Clean(key), prefix, yield) {
				return false
			}
		case !below && strings.HasPrefix(key, prefix):
			info, err := l.Stat(ctx, key)
			if errors.Is(err, ErrNotFound) {
				continue // it has gone meanwhile
			}
			if !yield(info, err) || err != nil {
				return false
			}
		}
	}
	return true
}

// names lists a directory in the order of keys: a directory's name ends with a
// slash, which is greater than "-" and less than "0". Only what can be (the
// beginning of) a key is in it; a directory that isn't there is empty.
func (l *Local) names(dir string) ([]string, error) {
	if !fs.ValidPath(dir) {
		return nil, nil // a prefix that no key has
	}
	entries, err := fs.ReadDir(l.root.FS(), dir)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, l.unavailable("list a directory", err)
	}
	var names []string
	for _, e := range entries {
		switch name := e.Name(); {
		case CheckKey(name) != nil:
		case e.IsDir():
			names = append(names, name+"/")
		case e.Type().IsRegular():
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// SweepIncomplete removes temporary files that nobody has written to since then.
func (l *Local) SweepIncomplete(ctx context.Context, before time.Time) (int, error) {
	entries, err := fs.ReadDir(l.root.FS(), incomplete)
	if absent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, l.unavailable("list temporary files", err)
	}
	removed := 0
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue // another instance was faster, or it is at work
		}
		if err := l.root.Remove(path.Join(incomplete, e.Name())); err == nil {
			removed++
		} else if !absent(err) {
			return removed, l.unavailable("remove a temporary file", err)
		}
	}
	return removed, nil
}

// Check makes a temporary file of one block durable and removes it again.
func (l *Local) Check(context.Context) error {
	f, name, err := l.create()
	if err != nil {
		return explained("create a file", err)
	}
	block := make([]byte, checkBlock)
	_, _ = rand.Read(block) // never fails
	_, err = f.Write(block)
	err = errors.Join(err, f.Sync(), f.Close())
	if err = errors.Join(err, l.root.Remove(name)); err != nil {
		return explained("write a file", err)
	}
	return nil
}

// checkBlock is the size of the file that Check writes, in bytes; an empty file
// would fit on a full disk.
const checkBlock = 4096
