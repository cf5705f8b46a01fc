package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The roles of every private server.
const (
	AdminRole = "postgres"      // superuser: makes databases and roles
	OwnerRole = "waypost_owner" // owns the databases; migrations run as it
	AppRole   = "waypost_app"   // what the application connects as; owns nothing
	// ViewerRole is what the console of the database page connects as.
	ViewerRole = "waypost_viewer"
)

// AdminURL is the connection string of the superuser.
func (s *Server) AdminURL(database string) string { return s.url(AdminRole, database) }

// OwnerURL is the connection string of the databases' owner, for migrations.
func (s *Server) OwnerURL(database string) string { return s.url(OwnerRole, database) }

// AppURL is the connection string of the application.
func (s *Server) AppURL(database string) string { return s.url(AppRole, database) }

// ViewerURL is the connection string of the database page's console.
func (s *Server) ViewerURL(database string) string { return s.url(ViewerRole, database) }

func (s *Server) url(role, database string) string {
	query := url.Values{"host": {s.socketDir}, "port": {"5432"}, "sslmode": {"disable"}}.Encode()
	u := url.URL{
		Scheme: "postgres",
		User:   url.User(role),
		Path:   "/" + database,
		// PostgreSQL's URLs are not HTML forms: a + is a plus sign.
		RawQuery: strings.ReplaceAll(query, "+", "%20"),
	}
	return u.String()
}

// EnsureDatabase makes the database, owned by OwnerRole, unless it exists.
func (s *Server) EnsureDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.AdminURL("postgres"))
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if exists, err := hasDatabase(ctx, conn, name); err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, `create database `+pgx.Identifier{name}.Sanitize()+` owner `+OwnerRole)
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && (pe.Code == "42P04" || pe.Code == "23505") {
		return nil // an attached process was quicker
	}
	if err != nil {
		return fmt.Errorf("embedded: create database %s: %w", name, err)
	}
	return nil
}

// HasDatabase reports whether EnsureDatabase, or somebody else, made the database.
func (s *Server) HasDatabase(ctx context.Context, name string) (bool, error) {
	conn, err := pgx.Connect(ctx, s.AdminURL("postgres"))
	if err != nil {
		return false, fmt.Errorf("embedded: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return hasDatabase(ctx, conn, name)
}

func hasDatabase(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var exists bool
	if err := conn.QueryRow(ctx, `select exists (select from pg_database where datname = $1)`, name).Scan(&exists); err != nil {
		return false, fmt.Errorf("embedded: look for database %s: %w", name, err)
	}
	return exists, nil
}

// ensureRoles also proves that the server answers.
func (s *Server) ensureRoles(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.AdminURL("postgres"))
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, `do $$
begin
    if not exists (select from pg_roles where rolname = '`+OwnerRole+`') then
        create role `+OwnerRole+` login;
    end if;
    if not exists (select from pg_roles where rolname = '`+AppRole+`') then
        create role `+AppRole+` login;
    end if;
    if not exists (select from pg_roles where rolname = '`+ViewerRole+`') then
        create role `+ViewerRole+` login;
        alter role `+ViewerRole+` set temp_file_limit = '1GB';
    end if;
    if not pg_has_role('`+OwnerRole+`', '`+AppRole+`', 'member') then
        grant `+AppRole+` to `+OwnerRole+`;
    end if;
end $$`)
	if err != nil {
		return fmt.Errorf("embedded: roles: %w", err)
	}
	return nil
}
