package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waypost/waypost/internal/app"
	"github.com/waypost/waypost/internal/audit"
)

func newAudit() *cobra.Command {
	return group("audit", "Verify the log of every change", "", newAuditVerify())
}

// auditSources are what a verification is given beside the database, or instead of it.
type auditSources struct{ checkpoints, key, export string }

func newAuditVerify() *cobra.Command {
	var from auditSources
	cmd := takesSettings(&cobra.Command{
		Use:   "verify [--checkpoint FILE] [--key KEY] [--export FILE]",
		Short: "Recompute the audit log's hashes and name the first bad entry",
		Long: `Each entry's hash covers its fields, the digest of what changed and the hash of the
entry before. This command recomputes all of them and, in the database, also the
digests over webhook deliveries, the tree and the signed checkpoints. The exit code
is 1 when the log is broken. Then the output names the first bad entry, and why:

  row_hash              its fields were edited
  digest                what changed was edited, or emptied and no note says so
  link                  it does not continue the entry before
  gap                   it is missing
  batch                 webhook deliveries that it covers were edited or deleted
  truncated             it and everything after it is missing
  checkpoint_signature  the checkpoint of this many entries is not signed by the key
  root                  the checkpoint of this many entries is of another log
  unsealed              an entry got no place in the chain

Whoever owns the database can write the whole log anew, hashes and all. So keep
checkpoints and the verifier key elsewhere, and give them here: --checkpoint takes a
copy of the file that WAYPOST_AUDIT_CHECKPOINT_FILE names, and --key what
GET /api/admin/audit/key says. Every checkpoint must be signed by that key, and be of
this log.

With --export the command reads what GET /api/admin/audit/export answered, and needs
no database. --checkpoint then needs --key.`,
		Example: `  waypost audit verify
  waypost audit verify --checkpoint checkpoints.txt --key verifier.key
  waypost audit verify --export audit.ndjson --checkpoint checkpoints.txt --key verifier.key`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return verifyAudit(cmd, from) },
	}, "database")
	cmd.Flags().StringVar(&from.checkpoints, "checkpoint", "", "file of signed checkpoints, as they were appended")
	cmd.Flags().StringVar(&from.key, "key", "", "verifier key, or a file with it; without it the database's own key is taken")
	cmd.Flags().StringVar(&from.export, "export", "", "file of exported entries, to verify without a database; - for standard input")
	return cmd
}

func verifyAudit(cmd *cobra.Command, from auditSources) error {
	if from.export != "" && from.checkpoints != "" && from.key == "" {
		return &usageError{errors.New("--checkpoint with --export needs --key: without a database only you can say whose signatures count")}
	}
	key, err := readVerifierKey(from.key)
	if err != nil {
		return &usageError{fmt.Errorf("--key: %w", err)}
	}
	warn := func(sentence string) { fmt.Fprintf(cmd.ErrOrStderr(), "Note: %s.\n", sentence) }
	var checkpoints io.Reader // nil for none
	if from.checkpoints != "" {
		f, err := os.Open(from.checkpoints)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		checkpoints = f
	}
	if from.export != "" {
		entries, err := openExport(cmd, from.export)
		if err != nil {
			return err
		}
		defer func() { _ = entries.Close() }()
		v, err := audit.VerifyExport(entries, checkpoints, key, warn)
		if err != nil {
			return err
		}
		return printVerdict(cmd.OutOrStdout(), v)
	}
	return withServices(cmd, func(s *app.Services) error {
		v, err := s.Audit.VerifyAgainst(cmd.Context(), checkpoints, key, warn)
		if err != nil {
			return err
		}
		return printVerdict(cmd.OutOrStdout(), v)
	})
}

func openExport(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(name)
}

// readVerifierKey takes a verifier key, or the name of a file with one.
func readVerifierKey(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	text, err := os.ReadFile(given)
	if err == nil {
		return audit.VerifierKey(string(text))
	}
	key, wrong := audit.VerifierKey(given)
	if wrong != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if wrong != nil {
		return "", fmt.Errorf("there is no file %s, and %w", given, wrong)
	}
	return key, nil
}

// printVerdict returns an error when the log is broken.
func printVerdict(out io.Writer, v audit.Verdict) error {
	fmt.Fprintf(out, "verified    %d entries\nhead        %d %s\n", v.Checked, v.Head.Seq, v.Head.Hash)
	if c := v.Checkpoint; c != nil {
		fmt.Fprintf(out, "checkpoint  %d entries, at %s\n", c.Size, c.At.Format(time.RFC3339))
	}
	b := v.FirstBad
	switch {
	case b == nil:
		_, err := fmt.Fprintln(out, "The audit log is whole.")
		return err
	case b.Seq == nil:
		fmt.Fprintf(out, "first bad   %s\n", b.Reason)
		return fmt.Errorf("the audit log is broken: %s", b.Reason)
	}
	fmt.Fprintf(out, "first bad   %d %s\n", *b.Seq, b.Reason)
	return fmt.Errorf("the audit log is broken at entry %d: %s", *b.Seq, b.Reason)
}
