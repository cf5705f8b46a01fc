package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Options configure a private server. DataDir is mandatory.
type Options struct {
	// DataDir is the directory that the cluster belongs to; it is made when missing.
	DataDir string
	// BinDir, when set, is the only directory searched for the server's programs.
	BinDir string
	// Download allows fetching the programs when the machine has none.
	Download bool
	// Logger is told of restarts and of what was found after a crash. The server's
	// own log is in a file. Default: silent.
	Logger *slog.Logger
	// Settings are further server settings, as in postgresql.conf.
	Settings map[string]string
	// Disposable trades the data's survival of a power cut for speed: no fsync. It
	// holds from initdb on and is for tests alone.
	Disposable bool
	// StartTimeout bounds one start of the server, recovery after a crash
	// included. Default: 2 minutes.
	StartTimeout time.Duration
	// RelocationDir is where clusters and downloads go that the unprivileged user
	// couldn't reach in their proper place. Default: /var/lib/waypost.
	RelocationDir string
}

func (o Options) validate() error {
	if o.DataDir == "" {
		return errors.New("embedded: no data directory")
	}
	if o.StartTimeout < 0 {
		return errors.New("embedded: negative start timeout")
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	if err := o.validate(); err != nil {
		return Options{}, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.StartTimeout = cmp.Or(o.StartTimeout, 2*time.Minute)
	o.RelocationDir = cmp.Or(o.RelocationDir, "/var/lib/waypost")
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return Options{}, fmt.Errorf("embedded: data directory: %w", err)
	}
	o.DataDir = dir
	return o, nil
}

// makeDataDir makes the data directory and gives its path free of symbolic
// links: the server's command line names it, and is compared with it later.
func (o Options) makeDataDir() (string, error) {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // the server's unprivileged user has to pass through
	}
	if err := mkdir(o.DataDir, mode); err != nil {
		return "", fmt.Errorf("embedded: data directory: %w", err)
	}
	dir, err := filepath.EvalSymlinks(o.DataDir)
	if err != nil {
		return "", fmt.Errorf("embedded: data directory: %w", err)
	}
	return dir, nil
}

// mkdir makes dir and its parents. A dir that it made has exactly that mode,
// whatever the umask; one that was there stays as it is.
func mkdir(dir string, mode os.FileMode) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	switch err := os.Mkdir(dir, mode); {
	case errors.Is(err, os.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return os.Chmod(dir, mode)
}
