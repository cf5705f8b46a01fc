package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waypost/waypost/db"
	"github.com/waypost/waypost/internal/blob"
	"github.com/waypost/waypost/internal/config"
	"github.com/waypost/waypost/internal/mail"
	"github.com/waypost/waypost/internal/token"
	"github.com/waypost/waypost/internal/webhook"
)

// Verdict is how a part of an installation is.
type Verdict string

// Verdicts. Look is what works, and may not be meant so.
const (
	Fine  Verdict = "ok"
	Look  Verdict = "look"
	Wrong Verdict = "wrong"
)

// Finding is what Diagnose says of one part.
type Finding struct {
	Part    string
	Verdict Verdict
	Said    string
	Mend    string // what to do, "" where nothing is
}

// DoctorOptions are what Diagnose needs beside the configuration. All but Extensions are
// mandatory.
type DoctorOptions struct {
	// LookupSecret finds a webhook secret by its variable's name.
	LookupSecret func(name string) string
	Now          func() time.Time
	Extensions   Extensions
}

// probeTime bounds each part's examination.
const probeTime = 15 * time.Second

// mostSkew is how far the clocks of this machine and of the database may be apart. Signed
// deliveries are accepted within 300 s.
const mostSkew = 5 * time.Second

// Diagnose looks at everything that serve needs, and changes nothing. A part that can't
// be examined since one before it is wrong is left out.
func Diagnose(ctx context.Context, c config.Config, o DoctorOptions) []Finding {
	e := examination{c: c, o: o}
	e.settings()
	e.providers()
	e.database(ctx)
	e.mails(ctx)
	e.files(ctx)
	return e.findings
}

type examination struct {
	c        config.Config
	o        DoctorOptions
	findings []Finding
}

func (e *examination) add(part string, v Verdict, said, mend string) {
	e.findings = append(e.findings, Finding{part, v, said, mend})
}

func (e *examination) settings() {
	if e.c.DatabaseURL == "" {
		e.add("settings", Look, "DATABASE_URL is not set, so this looks at the private database of dev", "for serve set DATABASE_URL, WAYPOST_URL and WAYPOST_SECRET_KEY: waypost help config")
		return
	}
	missing := e.c.ServeErrors()
	for _, problem := range missing {
		e.add("settings", Wrong, problem, "")
	}
	switch {
	case len(missing) > 0:
	case strings.HasPrefix(e.c.URL, "http://"):
		e.add("settings", Look, "WAYPOST_URL begins with http://: passwords and tokens cross the network in clear text", "put a proxy with a certificate before it, and set WAYPOST_URL=https://...")
	default:
		e.add("settings", Fine, "everything that serve requires is set", "")
	}
}

// providers reads the configuration file, and looks for the secrets of its providers.
func (e *examination) providers() {
	registry, err := newRegistry(e.c, e.o.LookupSecret, e.o.Extensions)
	if err != nil {
		e.add("webhooks", Wrong, err.Error(), "correct the file; docs/webhooks.md has what it may say")
		return
	}
	var silent []string
	broken := false
	for _, u := range registry.Unset(e.o.LookupSecret) {
		if u.Target != "" {
			broken = true
			e.add("webhooks", Wrong, "the target "+u.Target+" of "+u.Provider+" and "+u.Variable+": "+u.Reason, "set it to the secret that the target verifies with, whsec_ and a key in base64")
			continue
		}
		if strings.TrimSpace(e.o.LookupSecret(u.Variable)) == "" {
			silent = append(silent, u.Variable)
			continue
		}
		broken = true
		e.add("webhooks", Wrong, "the provider "+u.Provider+" and "+u.Variable+": "+u.Reason, "copy the secret from the provider's page again")
	}
	own := len(registry.Providers()) - len(webhook.BuiltIn())
	if len(silent) == 0 && broken {
		return
	}
	if len(silent) == 0 {
		e.add("webhooks", Fine, fmt.Sprintf("%d providers of your own, all with a secret", own), "")
		return
	}
	slices.Sort(silent)
	silent = slices.Compact(silent)
	e.add("webhooks", Look, "every delivery of a provider without a secret is refused; not set: "+strings.Join(silent, ", "), "set those of the providers that you use")
}

func (e *examination) database(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*probeTime)
	defer cancel()
	d, err := OpenDatabase(ctx, e.c, QuietLogger())
	if err != nil {
		e.add("database", Wrong, err.Error(), "")
		return
	}
	defer func() { _ = d.Close() }()
	conn, err := db.ConnectOwner(ctx, d.OwnerURL, "doctor")
	if err != nil {
		e.add("database", Wrong, fmt.Sprintf("cannot connect to %s: %v", d.Name(), err), "check that the server runs, that its pg_hba.conf lets this machine in, and the connection string")
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	e.server(ctx, d, conn)
	e.connections(ctx, d, conn)
	if !e.migrations(ctx, d) {
		return
	}
	e.layout(ctx, d)
	e.secretKey(ctx, conn)
	e.rights(ctx, d)
}

// layout says whether the statistics are sharded.
func (e *examination) layout(ctx context.Context, d *Database) {
	l, err := db.LayoutOf(ctx, d.OwnerURL)
	switch {
	case err != nil:
		e.add("layout", Wrong, err.Error(), "")
	case l.Pending():
		e.add("layout", Look, l.Said(), "waypost migrate distribute")
	default:
		e.add("layout", Fine, l.Said(), "")
	}
	if err == nil && len(l.Sharded) > 0 {
		e.workers(ctx, d)
	}
}

// workers says whether those of a cluster can be reached; sites on one that can't have no
// statistics meanwhile.
func (e *examination) workers(ctx context.Context, d *Database) {
	switch unreached, err := db.UnreachedWorkers(ctx, d.OwnerURL); {
	case err != nil:
		e.add("workers", Wrong, err.Error(), "")
	case len(unreached) > 0:
		e.add("workers", Wrong, strings.Join(unreached, "; "), "start them, or let them be reached (docs/scaling.md, When a worker is away)")
	default:
		e.add("workers", Fine, "let the coordinator in", "")
	}
}

// oldestServer is the oldest PostgreSQL that the migrations work on.
const oldestServer = 150000

func (e *examination) server(ctx context.Context, d *Database, conn *pgx.Conn) {
	var version string
	var number int
	var theirs time.Time
	err := conn.QueryRow(ctx, `select current_setting('server_version'), current_setting('server_version_num')::int, clock_timestamp()`).Scan(&version, &number, &theirs)
	ours := e.o.Now()
	switch {
	case err != nil:
		e.add("database", Wrong, err.Error(), "")
		return
	case number < oldestServer:
		e.add("database", Wrong, fmt.Sprintf("%s is PostgreSQL %s, which is too old", d.Name(), version), "upgrade the server to PostgreSQL 15 or later")
	default:
		e.add("database", Fine, fmt.Sprintf("%s, PostgreSQL %s", d.Name(), version), "")
	}
	if skew := ours.Sub(theirs); skew.Abs() > mostSkew {
		e.add("clock", Wrong, fmt.Sprintf("this machine's clock and the database's are %s apart", skew.Abs().Round(time.Second)), "synchronise both, for instance with systemd-timesyncd or chrony: timedatectl set-ntp true")
		return
	}
	e.add("clock", Fine, "agrees with the database's", "")
}

// otherConns are for migrations, backups, other programs and people.
const otherConns = 10

// connections holds a process's number of connections against what it needs and what the
// server has.
func (e *examination) connections(ctx context.Context, d *Database, conn *pgx.Conn) {
	if _, err := d.areaConns(e.c); err != nil {
		e.add("connections", Wrong, err.Error(), "raise WAYPOST_DATABASE_MAX_CONNS, or leave it out")
		return
	}
	var most int32
	if err := conn.QueryRow(ctx, `select current_setting('max_connections')::int`).Scan(&most); err != nil {
		e.add("connections", Wrong, err.Error(), "")
		return
	}
	said := fmt.Sprintf("each instance has up to %d of the server's %d", e.c.MaxConns, most)
	if !e.c.DatabasePooled && e.c.MaxConns+otherConns > most {
		e.add("connections", Look, said+", which leaves too few for anything else", "raise max_connections in postgresql.conf, or lower WAYPOST_DATABASE_MAX_CONNS")
		return
	}
	e.add("connections", Fine, said, "")
}

// migrations reports whether the schema is there to be looked at.
func (e *examination) migrations(ctx context.Context, d *Database) bool {
	list, err := db.Status(ctx, d.OwnerURL)
	if err != nil {
		e.add("migrations", Wrong, err.Error(), "")
		return false
	}
	pending := 0
	for _, m := range list {
		if !m.Applied {
			pending++
		}
	}
	if pending > 0 {
		e.add("migrations", Wrong, fmt.Sprintf("%d of %d are missing", pending, len(list)), "waypost migrate up")
		return false
	}
	current, err := db.IsCurrent(ctx, d.OwnerURL)
	switch {
	case err != nil:
		e.add("migrations", Wrong, err.Error(), "run the version of waypost that migrated the database")
	case !current:
		e.add("migrations", Wrong, "the job queue's are incomplete", "waypost migrate up")
	default:
		e.add("migrations", Fine, fmt.Sprintf("all %d are applied", len(list)), "")
	}
	return err == nil
}

func (e *examination) secretKey(ctx context.Context, conn *pgx.Conn) {
	current, previous := e.c.SecretKey, e.c.SecretKeyPrevious
	if current == "" {
		if e.c.DatabaseURL != "" {
			return // said with the settings
		}
		kept, err := os.ReadFile(filepath.Join(e.c.DataDir, secretKeyFile))
		if err != nil {
			e.add("secret key", Wrong, err.Error(), "set WAYPOST_SECRET_KEY to the value that dev ran with")
			return
		}
		current = string(kept)
	}
	if err := token.CheckSecretKey(ctx, conn, []byte(current), []byte(previous)); err != nil {
		e.add("secret key", Wrong, err.Error(), "set WAYPOST_SECRET_KEY, or WAYPOST_SECRET_KEY_PREVIOUS beside a new one, to the value that the database was used with")
		return
	}
	e.add("secret key", Fine, "is the database's", "")
}

// rights looks at the database as the service itself will.
func (e *examination) rights(ctx context.Context, d *Database) {
	if direct := e.c.DatabaseDirectURL; direct != "" {
		past, err := db.Open(ctx, db.Options{URL: direct, MaxConns: 1})
		if err != nil {
			e.add("roles", Wrong, "WAYPOST_DATABASE_DIRECT_URL: "+err.Error(), "it leads to the same database as DATABASE_URL, as waypost_app or a member of that role, past the pooler")
			return
		}
		past.Close()
	}
	pool, err := db.Open(ctx, db.Options{URL: d.URL, Pooled: e.c.DatabasePooled, MaxConns: 2})
	if err == nil {
		defer pool.Close()
		err = pool.CheckRights(ctx)
	}
	if err != nil {
		e.add("roles", Wrong, err.Error(), "waypost migrate up, as the database's owner, restores roles and rights")
		return
	}
	switch user, owns, err := pool.OwnsTables(ctx); {
	case err != nil:
		e.add("roles", Wrong, err.Error(), "")
	case owns && !d.Private():
		e.add("roles", Look, fmt.Sprintf("DATABASE_URL connects as %s, who owns the tables", user), "give the service a user of its own, and the owner as WAYPOST_DATABASE_OWNER_URL: docs/operations.md, Roles")
	default:
		e.add("roles", Fine, "the service may do what it needs, and no more", "")
	}
	if err := pool.CheckAudited(ctx); err != nil {
		e.add("audit log", Wrong, err.Error(), "")
		return
	}
	e.add("audit log", Fine, "covers every table", "")
}

// mails signs in at the mail server, and sends nothing.
func (e *examination) mails(ctx context.Context) {
	otherwise := config.MailNone
	if e.c.DatabaseURL == "" {
		otherwise = config.MailLog // as dev has it
	}
	m := e.c.Mail
	switch m.DriverIn(otherwise) {
	case config.MailNone:
		e.add("mail", Look, "is switched off: nobody can confirm an address, accept an invitation or reset a password", "set WAYPOST_SMTP_HOST and WAYPOST_MAIL_FROM")
		return
	case config.MailLog:
		e.add("mail", Look, "goes to the log", "set WAYPOST_SMTP_HOST and WAYPOST_MAIL_FROM to send it")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	server, err := mail.NewSMTP(mail.SMTPOptions{Host: m.Host, Port: m.Port, Username: m.Username, Password: m.Password, TLS: mail.TLS(m.TLS), From: m.From})
	if err == nil {
		err = server.Check(ctx)
	}
	if err != nil {
		e.add("mail", Wrong, err.Error(), "check WAYPOST_SMTP_HOST, _PORT, _USERNAME, _PASSWORD and _TLS")
		return
	}
	e.add("mail", Fine, fmt.Sprintf("%s takes mail from us", m.Host), "")
}

func (e *examination) files(ctx context.Context) {
	if e.c.DatabaseURL == "" {
		if err := inDataDir(&e.c); err != nil {
			e.add("files", Wrong, err.Error(), "")
			return
		}
	}
	if dir := e.c.Uploads.Dir; dir != "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			e.add("files", Look, dir+" is not there yet; a server makes it when it starts", "")
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	store, _, err := blob.Configured(e.c.Uploads)
	if none, ok := store.(blob.None); err == nil && ok {
		e.add("files", Look, none.Reason, "")
		return
	}
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		e.add("files", Wrong, err.Error(), "check WAYPOST_UPLOAD_DIR, or the settings WAYPOST_UPLOAD_S3_*")
		return
	}
	e.add("files", Fine, "the storage answers", "")
}

// Healthy reports whether nothing is wrong.
func Healthy(list []Finding) bool {
	return !slices.ContainsFunc(list, func(f Finding) bool { return f.Verdict == Wrong })
}
