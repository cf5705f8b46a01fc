package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// incomplete is the directory of half-written files. No key has a dot.
const incomplete = ".incomplete"

// Modes of what Local makes: the service's own user and nobody else.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// copyBuffer is how much of an object is in memory while Local writes it.
const copyBuffer = 128 << 10

// Boundary is a point of Local.Put where a test can end the work.
type Boundary string

// The boundaries, in their order for a new key; one that is there is Synced before it
// is Renamed.
const (
	Created Boundary = "created" // there is an empty temporary file
	Written Boundary = "written" // it has all bytes
	Renamed Boundary = "renamed" // it has its name
	Synced  Boundary = "synced"  // its bytes are durable
)

// LocalOptions configure NewLocal. Dir is mandatory.
type LocalOptions struct {
	// Dir is the directory; it is made if it isn't there.
	Dir string
	// Interrupt is called at every Boundary; an error ends the work there. For tests.
	Interrupt func(Boundary) error
}

// Local is a store in a directory: an object's key is its path, so that the
// directory can be copied into a bucket as it is. All access is through os.Root, so
// that nothing in the directory leads out of it. Several processes may share it.
type Local struct {
	o       LocalOptions
	root    *os.Root
	dir     *os.File  // what root is, for openAtOnce
	buffers sync.Pool // *[copyBuffer]byte
	mu      sync.Mutex
	durable map[string]bool // directories whose own entries are known to be durable
}

// NewLocal opens the directory.
func NewLocal(o LocalOptions) (*Local, error) {
	if o.Dir == "" {
		return nil, errors.New("blob: LocalOptions.Dir is missing")
	}
	if o.Interrupt == nil {
		o.Interrupt = func(Boundary) error { return nil }
	}
	if err := makeAll(filepath.Clean(o.Dir)); err != nil {
		return nil, fmt.Errorf("the directory for uploads can't be made: %w", err)
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory for uploads can't be opened: %w", err)
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the directory for uploads can't be opened: %w", err), root.Close())
	}
	l := &Local{o: o, root: root, dir: dir, durable: make(map[string]bool)}
	l.buffers.New = func() any { return new([copyBuffer]byte) }
	return l, nil
}

// makeAll is os.MkdirAll, durably.
func makeAll(dir string) error {
	parent := filepath.Dir(dir)
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeAll(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, dirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil // whether it is a directory its user finds out
	}
	if err != nil {
		return err
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	return syncAndClose(d)
}

// syncAndClose makes the entries of a directory durable. File systems that can't do
// this with directories (EINVAL) need not, as PostgreSQL has it, too.
func syncAndClose(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// Name is "local".
func (*Local) Name() string { return "local" }

// Put writes a temporary file, and renames it. What was there under the key is replaced
// only by durable bytes. A new key gets its name first: then one commit of the file
// system's journal makes both durable, where it would take two. A machine that loses its
// power before Put returns may so be left with a key whose bytes are not all there.
func (l *Local) Put(ctx context.Context, key, _ string, r io.Reader) (int64, error) {
	if err := CheckKey(key); err != nil {
		return 0, err
	}
	f, temporary, err := l.create()
	if err != nil {
		return 0, l.unavailable("create a file", err)
	}
	defer f.Close()
	size, err := l.fill(ctx, f, r)
	if err == nil {
		err = l.publish(f, temporary, key)
	}
	if err != nil {
		_ = l.root.Remove(temporary) // what can't be removed now is for SweepIncomplete
		return 0, err
	}
	return size, nil
}

// create makes a temporary file, and the directory of these if it isn't there.
func (l *Local) create() (*os.File, string, error) {
	name := path.Join(incomplete, rand.Text())
	for range 2 {
		f, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, name, err
		}
		if err := l.root.Mkdir(incomplete, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", err
		}
	}
	return nil, "", fs.ErrNotExist
}

// fill writes all of r into f.
func (l *Local) fill(ctx context.Context, f *os.File, r io.Reader) (int64, error) {
	if err := l.o.Interrupt(Created); err != nil {
		return 0, l.unavailable("write a file", err)
	}
	buffer := l.buffers.Get().(*[copyBuffer]byte)
	defer l.buffers.Put(buffer)
	var size int64
	for ended := false; !ended; {
		n, last, err := readBlock(ctx, r, buffer[:])
		if err != nil {
			return 0, err
		}
		if _, err := f.Write(buffer[:n]); err != nil {
			return 0, l.unavailable("write a file", err)
		}
		size, ended = size+int64(n), last
	}
	if err := l.o.Interrupt(Written); err != nil {
		return 0, l.unavailable("write a file", err)
	}
	return size, nil
}

// publish gives a file its key, durably.
func (l *Local) publish(f *os.File, temporary, key string) error {
	_, err := l.root.Lstat(key)
	isNew := absent(err)
	if !isNew {
		if err := l.makeDurable(f); err != nil {
			return err
		}
	}
	if err := l.rename(temporary, key); err != nil {
		return l.unavailable("name a file", err)
	}
	err = l.o.Interrupt(Renamed)
	if err == nil && isNew {
		err = l.makeDurable(f)
	}
	if err == nil {
		err = l.sync(path.Dir(key))
	}
	if err != nil {
		_ = l.root.Remove(key)
		return l.unavailable("make a file's name durable", err)
	}
	return nil
}

func (l *Local) makeDurable(f *os.File) error {
	err := f.Sync()
	if err == nil {
		err = l.o.Interrupt(Synced)
	}
	if err != nil {
		return l.unavailable("make a file durable", err)
	}
	return nil
}

// rename makes the directories of key, durably, and moves a file there. A directory
// that somebody removed is made again.
func (l *Local) rename(from, key string) error {
	dir := path.Dir(key)
	if err := l.makeDir(dir); err != nil {
		return err
	}
	err := l.root.Rename(from, key)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.mu.Lock()
	clear(l.durable)
	l.mu.Unlock()
	if err := l.makeDir(dir); err != nil {
		return err
	}
	return l.root.Rename(from, key)
}

// makeDir makes a directory and those above it durable. Which process made one
// doesn't matter: another may have died before it made it durable.
func (l *Local) makeDir(dir string) error {
	if dir == "." {
		return nil
	}
	l.mu.Lock()
	known := l.durable[dir]
	l.mu.Unlock()
	if known {
		return nil
	}
	if err := l.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	if err := l.root.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := l.sync(path.Dir(dir)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.durable) >= maxDurable {
		clear(l.durable)
	}
	l.durable[dir] = true
	return nil
}

// maxDurable bounds the memory of directories that are known to be durable.
const maxDurable = 1 << 14

// sync makes the entries of a directory durable.
func (l *Local) sync(dir string) error {
	d, err := l.root.Open(dir)
	if err != nil {
		return err
	}
	return syncAndClose(d)
}

// Stat looks at the file.
func (l *Local) Stat(_ context.Context, key string) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	info, err := l.root.Lstat(key)
	switch {
	case absent(err) || err == nil && info.IsDir():
		return Info{}, ErrNotFound
	case err != nil:
		return Info{}, l.unavailable("look at a file", err)
	case !info.Mode().IsRegular():
		return Info{}, fmt.Errorf("blob: %s in the directory for uploads is no regular file, but %s", key, info.Mode().Type())
	}
	return Info{Key: key, Size: info.Size(), ModifiedAt: info.ModTime().UTC()}, nil
}

// absent reports whether a file isn't there; the beginning of its path may be a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Open opens the file.
func (l *Local) Open(ctx context.Context, key string) (Object, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if f, info, ok := openAtOnce(l.dir, key); ok {
		return &localObject{File: f, info: info}, nil
	}
	if _, err := l.Stat(ctx, key); err != nil {
		return nil, err // also of what would block, such as a pipe
	}
	f, err := l.root.Open(key)
	if absent(err) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, l.unavailable("open a file", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, l.unavailable("open a file", err)
	}
	return &localObject{File: f, info: info}, nil
}

// localObject is a file. It embeds *os.File so that net/http can send it by the
// system's own call, without a copy through memory.
type localObject struct {
	*os.File
	info fs.FileInfo
}

func (o *localObject) Size() int64           { return o.info.Size() }
func (o *localObject) ModifiedAt() time.Time { return o.info.ModTime().UTC() }

func (o *localObject) Read(p []byte) (int, error) {
	n, err := o.File.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrClosed) {
		err = ErrUnavailable.Because(err)
	}
	return n, err
}

// Move renames the file.
func (l *Local) Move(ctx context.Context, from, to string) error {
	if err := errors.Join(CheckKey(from), CheckKey(to)); err != nil {
		return err
	}
	if _, err := l.Stat(ctx, from); err != nil || from == to {
		return err
	}
	err := l.rename(from, to)
	if _, gone := l.Stat(ctx, from); absent(err) && errors.Is(gone, ErrNotFound) {
		return ErrNotFound // somebody else was faster
	}
	if err == nil {
		err = l.sync(path.Dir(to))
	}
	if err == nil && path.Dir(from) != path.Dir(to) {
		err = l.sync(path.Dir(from))
	}
	if err != nil {
		return l.unavailable("move a file", err)
	}
	return nil
}

// Delete removes the file, durably.
func (l *Local) Delete(_ context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	info, err := l.root.Lstat(key)
	if absent(err) || err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = l.root.Remove(key)
	}
	if err == nil {
		err = l.sync(path.Dir(key))
	}
	if err != nil && !absent(err) {
		return l.unavailable("delete a file", err)
	}
	return nil
}

// PresignPut is not for directories.
func (*Local) PresignPut(context.Context, string, PutTerms) (Request, error) {
	return Request{}, ErrNotSupported
}

// unavailable is what a failure of the file system is for clients and in the log.
func (l *Local) unavailable(what string, err error) error {
	return ErrUnavailable.Because(explained(what, err))
}

// explained says what failed in a sentence for operators.
func explained(what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk of the directory for uploads is full: can't %s: %w", what, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the directory for uploads may not be written by this user: can't %s: %w", what, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the directory for uploads is on a disk mounted read-only: can't %s: %w", what, err)
	default:
		return fmt.Errorf("the directory for uploads: can't %s: %w", what, err)
	}
}
