package db

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ViewerRole is the role as which the console of the database page signs in. It may
// read what the table visible_columns lists, and nothing else.
const ViewerRole = "waypost_viewer"

// ViewerStatements are what an administrator of the database executes to make
// ViewerRole, or to let it sign in, and to give it its rights.
func ViewerStatements(exists bool) []string {
	verb := "CREATE"
	if exists {
		verb = "ALTER"
	}
	return []string{verb + " ROLE " + ViewerRole + " LOGIN PASSWORD '...';", "SELECT grant_viewer();"}
}

// ensureViewer makes ViewerRole where a connection string for it is known and the role
// is missing, and mends its rights. It returns the statements that did so. What
// somebody else must do is left: the console says so, and all else works without it.
func ensureViewer(ctx context.Context, conn *pgx.Conn, o UpgradeOptions) ([]string, error) {
	done, err := makeViewer(ctx, conn, o.ViewerURL)
	if err != nil {
		return nil, err
	}
	// To take a table's rights away takes those on its columns too.
	for range 2 {
		mends, err := viewerMends(ctx, conn)
		if err != nil {
			return done, err
		}
		for _, sql := range mends {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return done, fmt.Errorf("db: %s: %w", sql, err)
			}
			done = append(done, sql)
		}
	}
	return done, nil
}

// viewerMends are the statements that mend the rights of ViewerRole, those that the
// current user may execute.
func viewerMends(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.Query(ctx, `select statement from viewer_mends() where possible`)
	if err != nil {
		return nil, fmt.Errorf("db: rights of %s: %w", ViewerRole, err)
	}
	mends, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("db: rights of %s: %w", ViewerRole, err)
	}
	return mends, nil
}

// makeViewer creates ViewerRole with the password of viewerURL, unless it exists or
// nobody asks for it. An owner who may make no roles leaves that to an administrator.
func makeViewer(ctx context.Context, conn *pgx.Conn, viewerURL string) ([]string, error) {
	if viewerURL == "" {
		return nil, nil
	}
	cfg, err := pgx.ParseConfig(viewerURL)
	if err != nil {
		return nil, fmt.Errorf("db: WAYPOST_DATABASE_VIEWER_URL: %w", err) // pgx masks the password
	}
	var missing bool
	err = conn.QueryRow(ctx, `select not exists (select from pg_roles where rolname = $1)`, ViewerRole).Scan(&missing)
	if err != nil {
		return nil, fmt.Errorf("db: look for role %s: %w", ViewerRole, err)
	}
	if !missing || cfg.User != ViewerRole {
		return nil, nil
	}
	sql := `create role ` + ViewerRole + ` login`
	with := sql
	if cfg.Password != "" {
		salt := make([]byte, 16)
		_, _ = rand.Read(salt) // never fails
		verifier, err := scramVerifier(cfg.Password, salt)
		if err != nil {
			return nil, err
		}
		with += ` password '` + verifier + `'`
	}
	_, err = conn.Exec(ctx, with)
	switch {
	case err == nil:
		return []string{sql}, nil
	case hasCode(err, insufficientPrivilege), hasCode(err, "42710"), hasCode(err, "23505"): // somebody else must, or was quicker
		return nil, nil
	}
	return nil, fmt.Errorf("db: create role %s: %w", ViewerRole, err)
}

// scramIterations is PostgreSQL's own number.
const scramIterations = 4096

// scramVerifier is what PostgreSQL stores of a password (RFC 5803), so that the
// password itself is in no statement and no log of the server.
func scramVerifier(password string, salt []byte) (string, error) {
	if strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errors.New("db: the password in WAYPOST_DATABASE_VIEWER_URL has characters outside ASCII: create the role " + ViewerRole + " yourself")
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("db: %w", err)
	}
	keyed := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored, encode := sha256.Sum256(keyed("Client Key")), base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, encode(salt), encode(stored[:]), encode(keyed("Server Key"))), nil
}
